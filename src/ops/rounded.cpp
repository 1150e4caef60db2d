// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/rounded_kernel.hpp"

namespace lockstep::ops {
namespace {

/// Returns whether the operator multiplies its inputs by its parameters. An embedding only copies its parameters, and
/// its result is rounded.
bool is_product(const Operator& op) {
  return std::holds_alternative<Convolution>(op) || std::holds_alternative<TransposedConvolution>(op) ||
         std::holds_alternative<Linear>(op) || std::holds_alternative<Lstm>(op);
}

bool lies_alike(const Format& a, const Format& b) { return a.native == b.native && a.dtype == b.dtype; }

/// Returns the given format if the inner kernel's input has it, otherwise the inner kernel's.
Format wanted_format(const Format& inner, const Format& given) {
  return is_rounded(given) && lies_alike(inner, inner_of(given)) ? given : rounded(inner);
}

/// Returns whether the result is rounded. What only predictions need, such as decoded boxes, is not, and neither is
/// what consists of it.
bool rounds(const Operator& op, Formats inputs, const Signature& signature) {
  const bool arranges = std::holds_alternative<Concat>(op) && std::none_of(inputs.begin(), inputs.end(), is_rounded);
  return !signature.is_loss && signature.has_backward && !arranges;
}

std::vector<std::int64_t> counts_of(const std::vector<OwnedTensor>& parameters) {
  std::vector<std::int64_t> counts;
  for (const OwnedTensor& parameter : parameters) counts.push_back(parameter.count());
  return counts;
}

/// Counts the elements of vectors, which native half-precision kernels add in float32; they read matrices in half
/// precision.
std::vector<std::int64_t> counts_of_vectors(const std::vector<OwnedTensor>& parameters) {
  std::vector<std::int64_t> counts;
  for (const OwnedTensor& parameter : parameters) counts.push_back(parameter.shape.size() > 1 ? 0 : parameter.count());
  return counts;
}

class RoundedOps final : public Ops {
 public:
  RoundedOps(std::unique_ptr<Ops> inner, DType half, HalfPrecision by)
      : inner_(std::move(inner)),
        half_(half),
        by_(by),
        name_(std::string(inner_->name()) + (by == HalfPrecision::native ? " in " : " rounded to ") +
              std::string(lockstep::name(half))),
        scratch_(std::make_shared<Scratch>()) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::string_view library() const override { return inner_->library(); }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::float32; }
  [[nodiscard]] DType values(DType /*reals*/) const override { return half_; }
  [[nodiscard]] std::unique_ptr<Ops> another() const override {
    return make_rounded_ops(inner_->another(), half_, by_);
  }
  [[nodiscard]] HalfKernels half_kernels(DType half) const override {
    HalfKernels kernels = inner_->half_kernels(half);
    kernels.exist = kernels.exist && by_ == HalfPrecision::native && half == half_;
    return kernels;
  }
  [[nodiscard]] std::string arithmetic() const override {
    const std::string native = by_ == HalfPrecision::native ? ", native or" : ",";
    return inner_->arithmetic() + native + " rounded to " + std::string(lockstep::name(half_));
  }

  KernelPtr reorder(const Format& from, const Format& to) override {
    const Format& lies = inner_of(from);
    const Format& shall_lie = inner_of(to);
    auto inner = lies_alike(lies, shall_lie) ? nullptr : inner_->reorder(lies, shall_lie);
    return std::make_unique<RoundedReorder>(std::move(inner), from, to, half_, on_team());
  }

  [[nodiscard]] std::vector<KernelAlgorithms> candidates(const Operator& op, Formats inputs) override {
    if (by_ == HalfPrecision::native) return {};
    return inner_->candidates(op, in_float32(inputs));
  }
  void use(const KernelChoices& choices) override { inner_->use(choices); }
  [[nodiscard]] const KernelChoices& choices() const override { return inner_->choices(); }

  void update(std::span<const UpdateStep> steps) override { inner_->update(steps); }
  void measure_update(std::span<const UpdateStep> steps) override { inner_->measure_update(steps); }
  void average(const AverageStep& step) override { inner_->average(step); }
  void add_squares(const ConstBuffer& values, double* sum, Queue queue) override {
    inner_->add_squares(values, sum, queue);
  }
  void count_not_finite(const ConstBuffer& values, std::span<const std::int64_t> ends, double* counts,
                        Queue queue) override {
    inner_->count_not_finite(values, ends, counts, queue);
  }
  void compute_scalars(StepStage stage, const StepBlock& block, Queue queue) override {
    inner_->compute_scalars(stage, block, queue);
  }
  [[nodiscard]] const ComputeDevice& device() const override { return inner_->device(); }
  [[nodiscard]] OnTeam on_team() const override { return inner_->on_team(); }
  [[nodiscard]] MachineLimits measure_limits(DType dtype) override { return inner_->measure_limits(dtype); }

 private:
  KernelPtr make_kernel(const Operator& op, Formats inputs, const Signature& signature, DType reals) override {
    const bool product = is_product(op);
    // Gradients are added in the format that their value has.
    const bool adds_emulated =
        std::holds_alternative<Add>(op) && std::all_of(inputs.begin(), inputs.end(), is_emulated);
    const bool may_be_native = product || std::all_of(inputs.begin(), inputs.end(), is_rounded);
    if (by_ == HalfPrecision::native && may_be_native && !adds_emulated)
      if (auto kernel = make_native(op, inputs, signature)) return kernel;
    KernelPtr inner = inner_->make(op, in_float32(inputs), reals);
    // Gradients of parameters are added in float32, without rounding.
    if (std::holds_alternative<Add>(op) && std::none_of(inputs.begin(), inputs.end(), is_rounded)) return inner;
    Traits traits = inner->traits();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool is_real = traits.inputs[i].dtype == DType::float32;
      if (is_real && (product || is_rounded(inputs[i]))) traits.inputs[i] = wanted_format(traits.inputs[i], inputs[i]);
    }
    if (rounds(op, inputs, signature)) traits.output = rounded(traits.output);
    return std::make_unique<RoundedKernel>(std::move(inner), std::move(traits), half_,
                                           product ? counts_of(signature.parameters) : std::vector<std::int64_t>{},
                                           scratch_, on_team());
  }

  /// Returns null if the inner operators have no such kernel.
  KernelPtr make_native(const Operator& op, Formats inputs, const Signature& signature) {
    std::vector<Format> lie;
    for (const Format& input : inputs) lie.push_back(inner_of(input));
    KernelPtr inner = inner_->make_half(op, lie, half_);
    if (inner == nullptr) return nullptr;
    Traits traits = inner->traits();
    for (std::size_t i = 0; i < inputs.size(); ++i) traits.inputs[i] = wanted_format(traits.inputs[i], inputs[i]);
    traits.output = rounded(traits.output);
    auto vectors = is_product(op) ? counts_of_vectors(signature.parameters) : std::vector<std::int64_t>{};
    return std::make_unique<RoundedKernel>(std::move(inner), std::move(traits), half_, std::move(vectors), scratch_,
                                           on_team());
  }

  /// Returns the formats of the values for float32 kernels.
  std::vector<Format> in_float32(Formats formats) const {
    std::vector<Format> lie;
    for (const Format& format : formats) {
      const Format& inner = inner_of(format);
      lie.push_back(inner.dtype == half_ ? inner_->stored_as(inner, DType::float32) : inner);
    }
    return lie;
  }

  std::unique_ptr<Ops> inner_;
  DType half_;
  HalfPrecision by_;
  std::string name_;
  std::shared_ptr<Scratch> scratch_;
};

}  // namespace

std::unique_ptr<Ops> make_rounded_ops(std::unique_ptr<Ops> inner, DType half, HalfPrecision by) {
  if (half != DType::float16 && half != DType::bfloat16) {
    throw Error(ErrorCode::invalid_argument,
                "values cannot be rounded to " + std::string(name(half)) + "; use float16 or bfloat16");
  }
  if (!inner->supports(DType::float32)) {
    throw Error(ErrorCode::unsupported, "the " + std::string(inner->name()) +
                                            " operators do not support float32, which half precision is emulated with");
  }
  if (by == HalfPrecision::native && !inner->half_kernels(half).exist) {
    throw Error(ErrorCode::unsupported, "the " + std::string(inner->name()) + " operators have no kernels of " +
                                            std::string(name(half)) + " on this processor; use emulation");
  }
  return std::make_unique<RoundedOps>(std::move(inner), half, by);
}

}  // namespace lockstep::ops
