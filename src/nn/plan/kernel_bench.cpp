// SPDX-License-Identifier: Apache-2.0
#include "nn/plan/kernel_bench.hpp"

#include <algorithm>

#include "nn/graph/fill.hpp"

namespace lockstep::nn {
namespace {

/// Fills memory with numbers of a format: those of float32 are not the numbers of a shorter one, but NaN and
/// infinities, too, by which processors take another time.
void draw(Buffer memory, std::uint64_t seed) {
  const auto draw_float32 = [&](Buffer to) { fill_uniform(to, seed, "drawn", 0, 1); };
  const auto draw_halves = [&]<typename Half>(Half* to) {
    std::vector<float> values(static_cast<std::size_t>(memory.count.value));
    draw_float32(values);
    std::ranges::transform(values, to, [](float value) { return Half(value); });
  };
  switch (memory.dtype) {
    case DType::bfloat16: return draw_halves(static_cast<bfloat16*>(memory.data));
    case DType::float16: return draw_halves(static_cast<float16*>(memory.data));
    default: return draw_float32(memory);
  }
}

}  // namespace

KernelBench::KernelBench(const ops::Operator& op, std::span<const ops::KernelPtr> kernels, DType dtype,
                         const ops::ComputeDevice& device)
    : device_(device) {
  const ops::Traits& traits = kernels.front()->traits();
  Bytes workspace;
  for (const auto& kernel : kernels) workspace.value = std::max(workspace.value, kernel->workspace().value);
  std::vector<ops::Shape> shapes;
  for (const ops::Format& format : traits.inputs) {
    shapes.push_back(format.shape);
    inputs_.push_back(drawn(format.bytes, format.dtype));
    input_gradients_.push_back(drawn(format.bytes, format.dtype));
  }
  const ops::Signature signature = ops::signature_of(op, shapes);
  for (const ops::OwnedTensor& tensor : signature.state)
    state_.push_back(drawn({tensor.count() * size_of(dtype)}, dtype));
  for (const ops::OwnedTensor& tensor : signature.parameters) {
    const std::size_t i = parameters_.size();
    const bool is_packed = i < traits.packed.size() && traits.packed[i].value > 0;
    const Bytes plain{tensor.count() * size_of(dtype)};
    parameters_.push_back(is_packed ? drawn(traits.packed[i], traits.inputs.front().dtype) : drawn(plain, dtype));
    parameter_gradients_.push_back(drawn(plain, dtype));
  }
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  if (traits.statistics > 0) part_ = static_cast<double*>(drawn({traits.statistics * number}, dtype));
  output_ = drawn(traits.output.bytes, traits.output.dtype);
  output_gradient_ = drawn(traits.output.bytes, traits.output.dtype);
  if (workspace.value > 0) workspace_ = drawn(workspace, dtype);
}

void KernelBench::run(ops::Kernel& kernel, ops::Pass pass, bool wants_input_gradients) {
  std::vector<void*> no_gradients(input_gradients_.size(), nullptr);
  const bool skips_parameters = wants_input_gradients && kernel.traits().separates_gradients;
  kernel.run(pass, {.inputs = inputs_,
                    .parameters = parameters_,
                    .state = state_,
                    .output = output_,
                    .workspace = workspace_,
                    .part = part_,
                    .output_gradient = output_gradient_,
                    .input_gradients = wants_input_gradients ? std::span(input_gradients_) : std::span(no_gradients),
                    .parameter_gradients = skips_parameters ? std::span<void*>() : std::span(parameter_gradients_),
                    .queue = device_.queue()});
}

void* KernelBench::drawn(Bytes bytes, DType dtype) {
  constexpr std::int64_t most_drawn = std::int64_t{8} << 20;  // then the numbers repeat themselves
  const Allocation& memory = memory_.emplace_back(device_.allocate(bytes));
  const Allocation staging = device_.allocate_staging({std::min(bytes.value, most_drawn)});
  const bool is_float = dtype == DType::bfloat16 || dtype == DType::float16 || dtype == DType::float64;
  draw(staging.as(is_float ? dtype : DType::float32), static_cast<std::uint64_t>(memory_.size()));
  for (std::int64_t at = 0; at < bytes.value; at += most_drawn) {
    device_.copy(static_cast<std::byte*>(memory.data()) + at, staging.data(), {std::min(bytes.value - at, most_drawn)},
                 device_.queue());
  }
  wait();  // no order needed: freeing memory waits as well
  return memory.data();
}

}  // namespace lockstep::nn
