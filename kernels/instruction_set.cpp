// SPDX-License-Identifier: Apache-2.0
#include "kernels/instruction_set.hpp"

#include <array>

#include "kernels/convert.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lockstep::kernels {
namespace {

static_assert(sizeof(float16) == sizeof(std::uint16_t) && sizeof(bfloat16) == sizeof(std::uint16_t));

std::int64_t count(std::span<const float> floats) { return static_cast<std::int64_t>(floats.size()); }

}  // namespace

extern const InstructionSet scalar;
extern const InstructionSet baseline;

#if defined(__x86_64__)

extern const InstructionSet avx2;
extern const InstructionSet avx512;

namespace {

/// The builtin knows F16C only in some compilers. @source Intel SDM vol. 2A, CPUID: leaf 1, ECX bit 29
bool processor_has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & (1U << 29)) != 0;
}

/// Returns how many of the four this processor runs. The builtin also checks that the operating system saves the
/// registers.
std::size_t count_usable() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") == 0 || !processor_has_f16c()) return 2;
  const bool wide = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                    __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  return wide ? 4 : 3;
}

constexpr std::array all = {&scalar, &baseline, &avx2, &avx512};

}  // namespace

/// @source Intel SDM vol. 2A, CPUID: leaf 7; only newer compilers have builtins for AMX
bool processor_has_bfloat16() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (count_usable() < all.size()) return false;  // the system may not save the registers
  const bool tiles = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & (1U << 22)) != 0;
  const bool vectors = __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1U << 5)) != 0;
  return tiles || vectors;
}

bool is_intel_processor() { return __builtin_cpu_is("intel") != 0; }

#else

namespace {
constexpr std::array all = {&scalar, &baseline};
std::size_t count_usable() { return all.size(); }
}  // namespace

bool processor_has_bfloat16() { return false; }
bool is_intel_processor() { return false; }

#endif

std::span<const InstructionSet* const> instruction_sets() {
  static const std::size_t usable = count_usable();
  return std::span(all).first(usable);
}

namespace {

/// The loop that combines elements of a type, and how many of its elements one of them has.
struct Loop {
  DType dtype;
  ReduceOp op;
  std::int64_t elements = 1;
};

ReduceOp of_booleans(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
    case ReduceOp::product:
    case ReduceOp::bit_and:
    case ReduceOp::logical_and: return ReduceOp::logical_and;
    case ReduceOp::bit_xor:
    case ReduceOp::logical_xor: return ReduceOp::logical_xor;
    default: return ReduceOp::logical_or;
  }
}

Loop loop_of(DType dtype, ReduceOp op) {
  if (dtype == DType::boolean) return {DType::uint8, of_booleans(op)};
  if (is_bitwise(op)) return {DType::uint8, op, size_of(dtype)};
  if (is_complex(dtype)) return {real_of(dtype), op, 2};
  return {dtype, combining(op)};
}

}  // namespace

const InstructionSet& widest_instruction_set() {
  static const InstructionSet& widest = *instruction_sets().back();
  return widest;
}

const char* instruction_set_of_loops() {
  if (__builtin_cpu_supports("avx512f") != 0) return "loops avx512f";
  if (__builtin_cpu_supports("fma") != 0) return __builtin_cpu_supports("avx2") != 0 ? "loops avx2, fma" : "loops fma";
  return "loops plain";
}

void combine(const InstructionSet& set, const InstructionSet::Operands& operands, DType dtype, ReduceOp op) {
  if (operands.in_count == 1) return set.copy(operands);
  const std::size_t arity = operands.in_count <= 4 ? static_cast<std::size_t>(operands.in_count) - 2 : 3;
  const Loop loop = loop_of(dtype, op);
  InstructionSet::Operands o = operands;
  o.elements *= loop.elements;
  const auto number = static_cast<std::size_t>(loop.op);
  set.combine[static_cast<std::size_t>(loop.dtype)][loop.op > ReduceOp::average ? number - 1 : number][arity](o);
}

void max_pool(const PoolGrid& grid, const float* x, float* y, std::uint8_t* places) {
  widest_instruction_set().max_pool(grid, x, y, places);
}

void max_pool_backward(const PoolGrid& grid, const std::uint8_t* places, const float* dy, float* dx) {
  widest_instruction_set().max_pool_backward(grid, places, dy, dx);
}

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
