// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <cmath>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/kernel_choices.hpp"
#include "ops/formulas/step_stages.hpp"
#include "test_ops.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

using std::int64_t;

/// Counts what is submitted.
int submitted = 0;

template <typename Body>
__global__ void each(Body body, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) body(i);
}

/// Calls the body with 0 … count − 1, on the host or in a thread each.
template <typename Body>
void for_each(const Body& body, int64_t count, Queue queue) {
  ++submitted;
  if (queue.is_host()) {
    for (int64_t i = 0; i < count; ++i) body(i);
  } else if (count > 0) {
    const auto blocks = static_cast<unsigned>((count + 63) / 64);
    each<Body><<<blocks, 64, 0, static_cast<cudaStream_t>(queue.native())>>>(body, count);
  }
}

const float* floats(const void* data) { return static_cast<const float*>(data); }
float* floats(void* data) { return static_cast<float*>(data); }

struct LinearForward {
  const float *x, *weight, *bias;
  float* y;
  int64_t features, outs;
  LOCKSTEP_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t n = i / outs;
    const int64_t out = i % outs;
    float sum = bias[out];
    for (int64_t f = 0; f < features; ++f) sum += weight[out * features + f] * x[n * features + f];
    y[i] = sum;
  }
};

struct LinearWeightGradient {
  const float *x, *gradient;
  float* of_weight;
  int64_t batch, features, outs;
  LOCKSTEP_HOST_DEVICE void operator()(int64_t i) const {
    float sum = 0;
    for (int64_t n = 0; n < batch; ++n) sum += gradient[n * outs + i / features] * x[n * features + i % features];
    of_weight[i] = sum;
  }
};

struct LinearBiasGradient {
  const float* gradient;
  float* of_bias;
  int64_t batch, outs;
  LOCKSTEP_HOST_DEVICE void operator()(int64_t i) const {
    float sum = 0;
    for (int64_t n = 0; n < batch; ++n) sum += gradient[n * outs + i];
    of_bias[i] = sum;
  }
};

struct LinearInputGradient {
  const float *weight, *gradient;
  float* of_input;
  int64_t features, outs;
  LOCKSTEP_HOST_DEVICE void operator()(int64_t i) const {
    float sum = 0;
    for (int64_t out = 0; out < outs; ++out)
      sum += gradient[i / features * outs + out] * weight[out * features + i % features];
    of_input[i] = sum;
  }
};

class LinearKernel final : public ops::Kernel {
 public:
  LinearKernel(const ops::Format& in, int64_t outs)
      : Kernel({.inputs = {in},
                .output = ops::Format::plain({in.shape.batch, outs}, DType::float32),
                .backward_reads_output = false}),
        batch_(in.shape.batch),
        features_(in.shape.channels * in.shape.height * in.shape.width),
        outs_(outs) {}

 private:
  void forward(const ops::Arguments& call) override {
    for_each(LinearForward{floats(call.inputs[0]), floats(call.parameters[0]), floats(call.parameters[1]),
                           floats(call.output), features_, outs_},
             batch_ * outs_, call.queue);
  }
  void backward(const ops::Arguments& call) override {
    const float* gradient = floats(call.output_gradient);
    for_each(LinearWeightGradient{floats(call.inputs[0]), gradient, floats(call.parameter_gradients[0]), batch_,
                                  features_, outs_},
             features_ * outs_, call.queue);
    for_each(LinearBiasGradient{gradient, floats(call.parameter_gradients[1]), batch_, outs_}, outs_, call.queue);
    if (call.input_gradients[0] == nullptr) return;
    for_each(
        LinearInputGradient{floats(call.parameters[0]), gradient, floats(call.input_gradients[0]), features_, outs_},
        batch_ * features_, call.queue);
  }
  int64_t batch_, features_, outs_;
};

struct ReluForward {
  const float* x;
  float* y;
  LOCKSTEP_HOST_DEVICE void operator()(int64_t i) const { y[i] = x[i] > 0 ? x[i] : 0; }
};

struct ReluBackward {
  const float *y, *gradient;
  float* of_input;
  LOCKSTEP_HOST_DEVICE void operator()(int64_t i) const { of_input[i] = y[i] > 0 ? gradient[i] : 0; }
};

class ReluKernel final : public ops::Kernel {
 public:
  explicit ReluKernel(const ops::Format& in)
      : Kernel({.inputs = {in}, .output = in, .backward_reads_inputs = false}), count_(in.shape.count()) {}

 private:
  void forward(const ops::Arguments& call) override {
    for_each(ReluForward{floats(call.inputs[0]), floats(call.output)}, count_, call.queue);
  }
  void backward(const ops::Arguments& call) override {
    for_each(ReluBackward{floats(call.output), floats(call.output_gradient), floats(call.input_gradients[0])}, count_,
             call.queue);
  }
  int64_t count_;
};

struct Addition {
  const float *a, *b;
  float* sum;
  LOCKSTEP_HOST_DEVICE void operator()(int64_t i) const { sum[i] = a[i] + b[i]; }
};

/// Adds up gradients; there is no backward pass.
class AddKernel final : public ops::Kernel {
 public:
  explicit AddKernel(const ops::Format& in) : Kernel({.inputs = {in, in}, .output = in}), count_(in.shape.count()) {}

 private:
  void forward(const ops::Arguments& call) override {
    for_each(Addition{floats(call.inputs[0]), floats(call.inputs[1]), floats(call.output)}, count_, call.queue);
  }
  void backward(const ops::Arguments& /*call*/) override { throw std::logic_error("a sum of gradients"); }
  int64_t count_;
};

struct CrossEntropyForward {
  const float* logits;
  const std::int32_t* labels;
  ops::LossSums* sums;
  ops::Fault* fault;
  std::int32_t node;
  int64_t batch, classes;
  LOCKSTEP_HOST_DEVICE void operator()(int64_t /*i*/) const {
    ops::LossSums all;
    for (int64_t n = 0; n < batch; ++n) {
      if (labels[n] < 0 || labels[n] >= classes) {
        ops::report(fault, {ops::FaultCode::label, node, n, labels[n], classes});
        continue;
      }
      const float* row = logits + n * classes;
      int64_t largest = 0;
      for (int64_t c = 1; c < classes; ++c)
        if (row[c] > row[largest]) largest = c;
      float sum = 0;
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - row[largest]);
      all.weight += 1;
      all.loss += static_cast<double>(std::log(sum) - (row[labels[n]] - row[largest]));
      all.correct += largest == labels[n] ? 1 : 0;
    }
    *sums = all;
  }
};

struct CrossEntropyBackward {
  const float* logits;
  const std::int32_t* labels;
  const double* factor;
  float* gradients;
  int64_t classes;
  LOCKSTEP_HOST_DEVICE void operator()(int64_t n) const {
    const float* row = logits + n * classes;
    float largest = row[0];
    for (int64_t c = 1; c < classes; ++c) largest = row[c] > largest ? row[c] : largest;
    float sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - largest);
    for (int64_t c = 0; c < classes; ++c)
      gradients[n * classes + c] =
          static_cast<float>(*factor) * (std::exp(row[c] - largest) / sum - (labels[n] == c ? 1.0F : 0.0F));
  }
};

class CrossEntropyKernel final : public ops::Kernel {
 public:
  CrossEntropyKernel(const ops::Format& logits, const ops::Format& labels)
      : Kernel({.inputs = {logits, labels},
                .output = ops::Format::plain({1, 3, 1, 1}, DType::float64),
                .backward_reads_output = false}),
        batch_(logits.shape.batch),
        classes_(logits.shape.channels) {}

 private:
  void forward(const ops::Arguments& call) override {
    for_each(CrossEntropyForward{floats(call.inputs[0]), static_cast<const std::int32_t*>(call.inputs[1]),
                                 static_cast<ops::LossSums*>(call.output), call.fault, call.node, batch_, classes_},
             1, call.queue);
  }
  void backward(const ops::Arguments& call) override {
    for_each(CrossEntropyBackward{floats(call.inputs[0]), static_cast<const std::int32_t*>(call.inputs[1]),
                                  static_cast<const double*>(call.output_gradient), floats(call.input_gradients[0]),
                                  classes_},
             batch_, call.queue);
  }
  int64_t batch_, classes_;
};

struct SgdUpdate {
  float *weights, *velocity;
  const float* gradients;
  float momentum;
  const ops::UpdateScalars* scalars;
  LOCKSTEP_HOST_DEVICE void operator()(int64_t i) const {
    if (!scalars->go) return;
    velocity[i] = momentum * velocity[i] + gradients[i] * static_cast<float>(scalars->gradient_scale);
    weights[i] -= static_cast<float>(scalars->learning_rate) * velocity[i];
  }
};

struct EmaUpdate {
  float* averages;
  const float* values;
  const ops::AverageScalars* scalars;
  LOCKSTEP_HOST_DEVICE void operator()(int64_t i) const {
    if (!scalars->go) return;
    const auto kept = scalars->keep == 0 ? 0 : static_cast<float>(scalars->keep) * averages[i];
    averages[i] = kept + (scalars->take == 0 ? 0 : static_cast<float>(scalars->take) * values[i]);
  }
};

struct SumOfSquares {
  const float* values;
  int64_t count;
  double* sum;
  LOCKSTEP_HOST_DEVICE void operator()(int64_t /*i*/) const {
    for (int64_t i = 0; i < count; ++i) *sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
};

struct FiniteCheck {
  const float* values;
  int64_t count;
  double* not_finite;
  LOCKSTEP_HOST_DEVICE void operator()(int64_t /*i*/) const {
    for (int64_t i = 0; i < count; ++i) {
      if (std::isfinite(values[i])) continue;
      *not_finite += 1;
      return;
    }
  }
};

struct ScalarStage {
  ops::StepStage stage;
  ops::StepBlock block;
  LOCKSTEP_HOST_DEVICE void operator()(int64_t /*i*/) const { compute(stage, block); }
};

class TestOpsOnDevice final : public TestOps {
 public:
  explicit TestOpsOnDevice(std::unique_ptr<ops::ComputeDevice> device) : device_(std::move(device)) {}

  [[nodiscard]] int submitted() const override { return on_emulated_gpus::submitted; }
  [[nodiscard]] std::string_view name() const override { return "test"; }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::float32; }
  [[nodiscard]] const ops::ComputeDevice& device() const override { return device_ ? *device_ : ops::host_device(); }
  std::unique_ptr<ops::Kernel> reorder(const ops::Format& /*from*/, const ops::Format& /*to*/) override {
    throw std::logic_error("all formats are plain");
  }
  std::vector<ops::KernelAlgorithms> candidates(const ops::Operator& /*op*/,
                                                std::span<const ops::Format> /*inputs*/) override {
    return {};
  }
  void use(const ops::KernelChoices& choices) override { choices_ = choices; }
  [[nodiscard]] const ops::KernelChoices& choices() const override { return choices_; }
  [[nodiscard]] std::unique_ptr<ops::Ops> another() const override { throw std::logic_error("there is one lane"); }
  [[nodiscard]] std::string arithmetic() const override { return "test"; }

  void update(std::span<const ops::UpdateStep> steps) override {
    for (const ops::UpdateStep& step : steps)
      for_each(SgdUpdate{floats(step.parameters), floats(step.first), floats(step.gradients),
                         static_cast<float>(step.momentum), step.scalars},
               step.count.value, step.queue);
  }
  void measure_update(std::span<const ops::UpdateStep> /*steps*/) override {
    throw std::logic_error("SGD measures nothing");
  }
  void average(const ops::AverageStep& step) override {
    for_each(EmaUpdate{floats(step.averages), floats(step.values), step.scalars}, step.count.value, step.queue);
  }
  void add_squares(const ConstBuffer& values, double* sum, Queue queue) override {
    for_each(SumOfSquares{floats(values.data), values.count.value, sum}, 1, queue);
  }
  void count_not_finite(const ConstBuffer& values, std::span<const std::int64_t> ends, double* counts,
                        Queue queue) override {
    std::int64_t begin = 0;
    for (std::size_t k = 0; k < ends.size(); ++k) {
      for_each(FiniteCheck{floats(values.data) + begin, ends[k] - begin, counts + k}, 1, queue);
      begin = ends[k];
    }
  }
  void compute_scalars(ops::StepStage stage, const ops::StepBlock& block, Queue queue) override {
    for_each(ScalarStage{stage, block}, 1, queue);
  }
  ops::MachineLimits measure_limits(DType /*dtype*/) override { return {}; }

 private:
  std::unique_ptr<ops::Kernel> make_kernel(const ops::Operator& op, std::span<const ops::Format> inputs,
                                           const ops::Signature& /*signature*/, DType /*reals*/) override {
    if (const auto* linear = std::get_if<ops::Linear>(&op); linear != nullptr)
      return std::make_unique<LinearKernel>(inputs[0], linear->out_features);
    if (std::holds_alternative<ops::Relu>(op)) return std::make_unique<ReluKernel>(inputs[0]);
    if (std::holds_alternative<ops::Add>(op)) return std::make_unique<AddKernel>(inputs[0]);
    if (std::holds_alternative<ops::CrossEntropy>(op))
      return std::make_unique<CrossEntropyKernel>(inputs[0], inputs[1]);
    throw Error(ErrorCode::unsupported, "no kernel for tests");
  }

  std::unique_ptr<ops::ComputeDevice> device_;
  ops::KernelChoices choices_;
};

}  // namespace

std::unique_ptr<TestOps> make_test_ops(std::unique_ptr<ops::ComputeDevice> device) {
  return std::make_unique<TestOpsOnDevice>(std::move(device));
}

}  // namespace lockstep::on_emulated_gpus
