// SPDX-License-Identifier: Apache-2.0
#include "kernels/convert.hpp"

#include "kernels/instruction_set.hpp"

namespace lockstep::kernels {
namespace {

static_assert(sizeof(float16) == sizeof(std::uint16_t) && sizeof(bfloat16) == sizeof(std::uint16_t));

std::int64_t count(std::span<const float> floats) { return static_cast<std::int64_t>(floats.size()); }

}  // namespace

void convert(std::span<const float16> from, std::span<float> to) {
  if (!to.empty()) widest_instruction_set().widen_float16(&from.data()->bits, to.data(), count(to));
}

void convert(std::span<const bfloat16> from, std::span<float> to) {
  if (!to.empty()) widest_instruction_set().widen_bfloat16(&from.data()->bits, to.data(), count(to));
}

void convert(std::span<const float> from, std::span<float16> to) {
  if (!from.empty()) widest_instruction_set().narrow_float16(from.data(), &to.data()->bits, count(from));
}

void convert(std::span<const float> from, std::span<bfloat16> to) {
  if (!from.empty()) widest_instruction_set().narrow_bfloat16(from.data(), &to.data()->bits, count(from));
}

void round_to(DType half, std::span<const float> from, std::span<float> to) {
  if (from.empty()) return;
  const InstructionSet& set = widest_instruction_set();
  const auto round = half == DType::float16 ? set.round_float16 : set.round_bfloat16;
  round(from.data(), to.data(), count(from));
}

}  // namespace lockstep::kernels
