// SPDX-License-Identifier: Apache-2.0
#pragma once

// Elements that are most likely to reveal errors of arithmetic.

#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <span>

#include "kernels/convert.hpp"
#include "lockstep/base/buffer.hpp"

namespace lockstep::kernels {

inline constexpr DType all_dtypes[] = {DType::float32, DType::float64,   DType::int32,     DType::int64, DType::uint8,
                                       DType::float16, DType::bfloat16,  DType::int8,      DType::int16, DType::uint16,
                                       DType::boolean, DType::complex64, DType::complex128};
/// The types and operators that GPUs have as well.
inline constexpr DType common_dtypes[] = {DType::float32, DType::float64, DType::int32,   DType::int64,
                                          DType::uint8,   DType::float16, DType::bfloat16};
inline constexpr ReduceOp arithmetic_ops[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};
inline constexpr ReduceOp all_ops[] = {
    ReduceOp::sum,        ReduceOp::min,         ReduceOp::max,     ReduceOp::product, ReduceOp::logical_and,
    ReduceOp::logical_or, ReduceOp::logical_xor, ReduceOp::bit_and, ReduceOp::bit_or,  ReduceOp::bit_xor};

/// Returns the operators that elements of this type have, without the average.
inline std::span<const ReduceOp> ops_of(DType dtype) {
  if (is_complex(dtype)) return std::span(all_ops).first(1);
  return is_integer(dtype) || dtype == DType::boolean ? std::span(all_ops) : std::span<const ReduceOp>(arithmetic_ops);
}

/// Returns one of zeros, ones, the smallest and largest numbers, denormals, infinities, and quiet and signaling NaNs
/// with payloads.
inline std::uint64_t awkward(DType dtype, std::uint64_t random) {
  static constexpr std::uint64_t of_float32[] = {0,          0x80000000, 1,          0x807fffff,
                                                 0x00800000, 0x7f7fffff, 0xff800000, 0x7f800000,
                                                 0x7fc01234, 0xffc05678, 0x7f800001, 0xff92abcd};
  static constexpr std::uint64_t of_float64[] = {0,
                                                 1ULL << 63,
                                                 1,
                                                 0x800fffffffffffff,
                                                 0x0010000000000000,
                                                 0x7fefffffffffffff,
                                                 0xfff0000000000000,
                                                 0x7ff0000000000000,
                                                 0x7ff8000000001234,
                                                 0xfff8000000005678,
                                                 0x7ff0000000000001,
                                                 0xfff2abcdef012345};
  static constexpr std::uint64_t of_float16[] = {0,      0x8000, 1,      0x83ff, 0x0400, 0x7bff,
                                                 0xfc00, 0x7c00, 0x7e12, 0xfe34, 0x7c01, 0xfd56};
  static constexpr std::uint64_t of_integers[] = {0,          1,          ~0ULL, 1ULL << 63, ~0ULL >> 1,
                                                  1ULL << 31, 0x7fffffff, 0x80,  0x7f};
  switch (dtype) {
    case DType::float32: return of_float32[random % std::size(of_float32)];
    case DType::float64: return of_float64[random % std::size(of_float64)];
    case DType::float16: return of_float16[random % std::size(of_float16)];
    case DType::bfloat16: return of_float32[random % std::size(of_float32)] >> 16;
    case DType::boolean: return random % 2;
    default: return of_integers[random % std::size(of_integers)];
  }
}

/// Makes half of the elements random and half of them awkward. @param bytes  a whole number of elements
inline void randomize(std::span<char> bytes, DType dtype, std::mt19937_64& random) {
  dtype = real_of(dtype);
  const auto width = static_cast<std::size_t>(size_of(dtype));
  for (std::size_t at = 0; at < bytes.size(); at += width) {
    const bool is_awkward = dtype == DType::boolean || random() % 2 == 0;
    const std::uint64_t bits = is_awkward ? awkward(dtype, random()) : random();
    std::memcpy(bytes.data() + at, &bits, width);
  }
}

}  // namespace lockstep::kernels
