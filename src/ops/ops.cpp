// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/ops.hpp"

#include "kernels/finite.hpp"
#include "ops/formulas/step_stages.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops {
namespace {

void require_count(std::size_t given, std::size_t wanted, const char* what) {
  if (given == wanted) return;  // returns before the message is made, because calls must not allocate
  throw Error(ErrorCode::invalid_argument, "the operator takes " + std::to_string(wanted) + " " + what +
                                               ", the call brings " + std::to_string(given));
}

bool is_integer(const Signature& signature, std::size_t input) {
  return input < signature.inputs.size() && signature.inputs[input] == Content::integer;
}

/// Returns the dtype of the first real input, before rounding.
DType reals_of(Formats inputs, const Signature& signature, DType without_any, DType rounded) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!is_integer(signature, i)) return inputs[i].dtype == rounded ? DType::float32 : inputs[i].dtype;
  return without_any;
}

/// Checks that all reals have one dtype, or are rounded, and that integers are int32.
void check_dtypes(Formats inputs, const Signature& signature, DType reals, DType rounded) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DType wanted = is_integer(signature, i) ? DType::int32 : reals;
    const bool is_rounded = wanted == DType::float32 && inputs[i].dtype == rounded;
    require(inputs[i].dtype == wanted || is_rounded, "input " + std::to_string(i) + " has to be " +
                                                         std::string(name(wanted)) + ", and is " +
                                                         std::string(name(inputs[i].dtype)));
  }
}

Signature signature_for(const Operator& op, Formats inputs) {
  require(!inputs.empty(), "an operator needs an input");
  return signature_of(op, shapes_of(inputs));
}

}  // namespace

std::int64_t OwnedTensor::count() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

LossSums& LossSums::operator+=(const LossSums& other) {
  weight += other.weight;
  loss += other.loss;
  correct += other.correct;
  return *this;
}

std::span<double> numbers(std::span<LossSums> loss_sums) {
  static_assert(sizeof(LossSums) == 3 * sizeof(double));
  return {reinterpret_cast<double*>(loss_sums.data()), 3 * loss_sums.size()};
}

Signature signature_of(const Operator& op, std::span<const Shape> inputs) {
  return std::visit([&](const auto& kind) { return kind.signature(inputs); }, op);
}

std::string text_of(const Operator& op) {
  return std::visit([](const auto& kind) { return kind.text(); }, op);
}

std::string text_of(const Fault& fault, const std::string& sample) {
  const std::string value = std::to_string(fault.value);
  const std::string limit = std::to_string(fault.limit);
  switch (fault.code) {
    case FaultCode::none: return "there is no bad value";
    case FaultCode::label:
      return "label of " + sample + " is " + value + "; there are " + limit + " classes, numbered from 0";
    case FaultCode::target:
      return "a target of " + sample + " is " + value + "; there are " + limit +
             " classes, numbered from 0, and the blank is no target";
    case FaultCode::targets: return sample + " has " + value + " targets; it must be between 0 and " + limit;
    case FaultCode::steps: return sample + " has " + value + " steps; it must be between 0 and " + limit;
    case FaultCode::token:
      return "a token of " + sample + " is " + value + "; there are " + limit + " entries, numbered from 0";
  }
  return {};
}

void Kernel::normalizer(const Arguments& /*call*/) {
  throw Error(ErrorCode::invalid_argument, "only losses have the pass normalizer");
}

void Kernel::measure(const Arguments& /*call*/) {
  throw Error(ErrorCode::invalid_argument, "the operator exchanges no statistics with other ranks");
}

void Kernel::recompute(const Arguments& /*call*/) {
  throw Error(ErrorCode::invalid_argument, "the operator cannot recompute its result");
}

void Kernel::measure_backward(const Arguments& call) { measure(call); }

void Kernel::run(Pass pass, const Arguments& call) {
  require_count(call.inputs.size(), traits_.inputs.size(), "inputs");
  if (pass == Pass::normalizer) return normalizer(call);
  if (pass == Pass::measure) return measure(call);
  if (pass == Pass::measure_backward) return measure_backward(call);
  require_count(call.parameters.size(), parameters_, "parameters");
  if (pass == Pass::recompute) return recompute(call);
  if (pass == Pass::backward) {
    require_count(call.input_gradients.size(), traits_.inputs.size(), "input gradients");
    if (!call.parameter_gradients.empty() || !traits_.separates_gradients)
      require_count(call.parameter_gradients.size(), parameters_, "parameter gradients");
    return backward(call);
  }
  require_count(call.state.size(), state_, "state tensors");
  pass == Pass::infer ? infer(call) : forward(call);
}

KernelPtr Ops::convert_bytes(const Normalization& /*numbers*/, const Format& /*to*/) {
  throw Error(ErrorCode::unsupported,
              "the " + std::string(name()) + " operators do not convert bytes; read real numbers");
}

void Ops::count_not_finite(const ConstBuffer& values, std::span<const std::int64_t> ends, double* counts,
                           Queue /*queue*/) {
  std::int64_t begin = 0;
  for (std::size_t k = 0; k < ends.size(); ++k) {
    if (!kernels::all_finite(slice(values, {begin}, {ends[k] - begin}))) counts[k] += 1;
    begin = ends[k];
  }
}

void Ops::compute_scalars(StepStage stage, const StepBlock& block, Queue /*queue*/) { compute(stage, block); }

KernelPtr Ops::make(const Operator& op, Formats inputs, DType reals) {
  const Signature signature = signature_for(op, inputs);
  const DType rounded = values(DType::float32);
  reals = reals_of(inputs, signature, reals, rounded);
  check_dtypes(inputs, signature, reals, rounded);
  if (!supports(reals)) {
    throw Error(ErrorCode::unsupported, std::string(name()) + " operators on " + std::string(lockstep::name(reals)) +
                                            "; use float32, or the reference operators with float64");
  }
  if (const auto* convolution = std::get_if<Convolution>(&op); convolution != nullptr && convolution->statistics) {
    if (!sums_in_convolutions())
      throw Error(ErrorCode::unsupported,
                  std::string(name()) + " operators have no convolution with statistics; leave the pass 'fuse' out");
  }
  if (const auto* norm = std::get_if<BatchNorm>(&op); norm != nullptr && (norm->normalizes_residual || norm->pool)) {
    if (!fuses_batch_norms())
      throw Error(ErrorCode::unsupported,
                  std::string(name()) + " operators have no " + norm->text() + "; leave the pass 'fuse' out");
  }
  KernelPtr kernel = make_kernel(op, inputs, signature, reals);
  kernel->parameters_ = signature.parameters.size();
  kernel->state_ = signature.state.size();
  return kernel;
}

KernelPtr Ops::make_half(const Operator& op, Formats inputs, DType half) {
  const Signature signature = signature_for(op, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (is_integer(signature, i)) return nullptr;
  check_dtypes(inputs, signature, DType::float32, half);
  KernelPtr kernel = make_half_kernel(op, inputs, signature, half);
  if (kernel == nullptr) return nullptr;
  kernel->parameters_ = signature.parameters.size();
  kernel->state_ = signature.state.size();
  return kernel;
}

}  // namespace lockstep::ops
