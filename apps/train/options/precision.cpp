// SPDX-License-Identifier: Apache-2.0
#include "apps/train/options/precision.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/instruction_set.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"

namespace lockstep::train {
namespace {

/// This is also the initial scale of PyTorch's GradScaler. If it is too large, that shows within a few steps.
constexpr double first_scale_of_float16 = 0x1p16;

constexpr std::array<Precision, 5> all_precisions = {
    {{"float32", DType::float32, std::nullopt, 0},
     {"float64", DType::float64, std::nullopt, 0},
     {"tf32", DType::float32, std::nullopt, 0, true},
     {"bf16", DType::float32, DType::bfloat16, 0},
     {"mixed-fp16", DType::float32, DType::float16, first_scale_of_float16}}};

}  // namespace

std::vector<std::string_view> precision_names() {
  std::vector<std::string_view> names;
  for (const Precision& precision : all_precisions) names.push_back(precision.name);
  return names;
}

Precision precision_of(std::string_view name) { return *std::ranges::find(all_precisions, name, &Precision::name); }

std::vector<ComputeLibrary> bundled_libraries() {
  return {{"onednn", &ops::make_onednn_ops},
          {"reference", [](int /*threads*/, bool /*exact*/) { return ops::make_reference_ops(); }}};
}

std::unique_ptr<ops::Ops> make_ops(const ComputeLibrary& library, const Precision& precision, int threads, bool exact) {
  std::unique_ptr<ops::Ops> ops = library.make(threads, exact);
  if (!precision.half) return ops;
  const bool are_fast = ops->half_kernels(*precision.half).are_fast;
  return ops::make_rounded_ops(std::move(ops), *precision.half,
                               are_fast ? ops::HalfPrecision::native : ops::HalfPrecision::emulated);
}

std::string emulation_of(const Precision& precision, const ops::Ops& ops) {
  if (!precision.half || !ops.device().queue().is_host()) return {};
  const ops::HalfKernels native = ops.half_kernels(*precision.half);
  if (native.exist) {
    return "in float32 where there are no kernels of it, and else computed by " +
           (native.instructions.empty() ? "conversions" : std::string(native.instructions));
  }
  if (precision.half != DType::bfloat16) return "in float32: there are no operators of it yet";
  if (!native.instructions.empty())
    return "in float32, which takes less time than " + std::string(native.instructions) + " on this processor";
  return std::string("in float32: ") + (kernels::processor_has_bfloat16()
                                            ? "these operators do not use this processor's AVX512-BF16 or AMX"
                                            : "this processor has neither AVX512-BF16 nor AMX");
}

}  // namespace lockstep::train
