// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/base/buffer.hpp"

namespace lockstep::kernels {

/// The type of a complex number's two parts; any other type itself.
constexpr DType real_of(DType dtype) {
  if (dtype == DType::complex64) return DType::float32;
  return dtype == DType::complex128 ? DType::float64 : dtype;
}

/// A view of the parts of complex numbers; any other buffer itself.
inline Buffer real_parts(const Buffer& values) {
  return {values.data, (is_complex(values.dtype) ? 2 : 1) * values.count, real_of(values.dtype), values.kind};
}

/// Calls f with a value of the element's type: a byte for a boolean, the type of its parts for a complex number.
template <typename F>
void with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::complex64:
    case DType::float32: return f(float{});
    case DType::complex128:
    case DType::float64: return f(double{});
    case DType::int8: return f(std::int8_t{});
    case DType::int16: return f(std::int16_t{});
    case DType::uint16: return f(std::uint16_t{});
    case DType::int32: return f(std::int32_t{});
    case DType::int64: return f(std::int64_t{});
    case DType::boolean:
    case DType::uint8: return f(std::uint8_t{});
    case DType::float16: return f(float16{});
    case DType::bfloat16: return f(bfloat16{});
  }
}

/// to[i] = from[i], exactly; overwrites. A NaN stays a NaN; a float16 NaN becomes quiet.
/// @pre  the same number of elements, no overlap
void convert(std::span<const float16> from, std::span<float> to);
void convert(std::span<const bfloat16> from, std::span<float> to);

/// to[i] = from[i], rounded to nearest, ties to even; overwrites. A value beyond the range (65,504 in float16) becomes
/// infinite; a NaN becomes a quiet NaN. @pre as above
void convert(std::span<const float> from, std::span<float16> to);
void convert(std::span<const float> from, std::span<bfloat16> to);

/// to[i] = from[i] rounded to a 16-bit format, as a `convert` to that format and back does it. `to` may be `from`.
/// @pre  the same number of elements; `half` is float16 or bfloat16
void round_to(DType half, std::span<const float> from, std::span<float> to);

}  // namespace lockstep::kernels
