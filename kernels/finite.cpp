// SPDX-License-Identifier: Apache-2.0
#include "kernels/finite.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/convert.hpp"
#include "kernels/vectorized.hpp"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t at_a_time = 1024;  // unit: elements; the search may stop after each such chunk

/// An infinity or a NaN has all bits of the exponent set, so adding the exponent's lowest bit to the magnitude carries
/// into the sign bit. Elements may be at any address.
template <typename Bits, Bits exponent>
LOCKSTEP_INLINE bool all_below(const std::byte* at, std::int64_t count) {
  constexpr Bits lowest = exponent & -exponent;
  constexpr Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  while (count > 0) {
    const std::int64_t some = std::min(count, at_a_time);
    Bits carries = 0;
    for (std::int64_t i = 0; i < some; ++i) {
      Bits bits;
      std::memcpy(&bits, at + i * static_cast<std::int64_t>(sizeof(Bits)), sizeof(Bits));
      carries |= static_cast<Bits>((bits & static_cast<Bits>(~sign)) + lowest);
    }
    if ((carries & sign) != 0) return false;
    at += some * static_cast<std::int64_t>(sizeof(Bits));
    count -= some;
  }
  return true;
}

LOCKSTEP_VECTORISED bool all_finite32(const std::byte* at, std::int64_t count) {
  return all_below<std::uint32_t, 0x7F800000U>(at, count);
}
LOCKSTEP_VECTORISED bool all_finite64(const std::byte* at, std::int64_t count) {
  return all_below<std::uint64_t, 0x7FF0000000000000U>(at, count);
}
LOCKSTEP_VECTORISED bool all_finite_bfloat16(const std::byte* at, std::int64_t count) {
  return all_below<std::uint16_t, 0x7F80U>(at, count);
}
LOCKSTEP_VECTORISED bool all_finite_float16(const std::byte* at, std::int64_t count) {
  return all_below<std::uint16_t, 0x7C00U>(at, count);
}

}  // namespace

bool all_finite(const ConstBuffer& values) {
  if (is_complex(values.dtype)) {
    return all_finite(ConstBuffer{values.data, 2 * values.count, real_of(values.dtype), values.kind});
  }
  const auto* at = static_cast<const std::byte*>(values.data);
  switch (values.dtype) {
    case DType::float32: return all_finite32(at, values.count.value);
    case DType::float64: return all_finite64(at, values.count.value);
    case DType::float16: return all_finite_float16(at, values.count.value);
    case DType::bfloat16: return all_finite_bfloat16(at, values.count.value);
    default: return true;
  }
}

}  // namespace lockstep::kernels
