// SPDX-License-Identifier: Apache-2.0
#pragma once

// A format has an element's type in memory (Stored) and the type of the arithmetic (Value).

#include "simd.hpp"

namespace lockstep::kernels {
namespace {

template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  template <int lanes>
  LOCKSTEP_INLINE static Pack<T, lanes> widen(const Pack<T, lanes>& stored) {
    return stored;
  }
  template <int lanes>
  LOCKSTEP_INLINE static Pack<T, lanes> narrow(const Pack<T, lanes>& value) {
    return value;
  }
};

template <int lanes>
using Bits16 = Pack<std::uint16_t, lanes>;
template <int lanes>
using Bits32 = Pack<std::uint32_t, lanes>;
template <int lanes>
using Floats = Pack<float, lanes>;

/// Adds half a unit in the last place that is kept, minus one if that place is even. The bits above `dropped` are then
/// rounded to nearest, ties to even.
template <int dropped, typename Bits>
LOCKSTEP_INLINE Bits rounded(const Bits& bits) {
  return bits + ((1U << (dropped - 1)) - 1U) + ((bits >> dropped) & 1U);
}

/// The upper half of a float32. AVX512_BF16 is not used because its conversion flushes denormals.
struct BFloat16 {
  using Stored = std::uint16_t;
  using Value = float;
  template <int lanes>
  LOCKSTEP_INLINE static Floats<lanes> widen(const Bits16<lanes>& stored) {
    return bits_as<Floats<lanes>>(converted<std::uint32_t, lanes>(stored) << 16);
  }
  template <int lanes>
  LOCKSTEP_INLINE static Bits16<lanes> narrow(const Floats<lanes>& value) {
    const auto bits = bits_as<Bits32<lanes>>(value);
    const Bits32<lanes> quiet_nan = (bits >> 16) | 0x40U;
    const Bits32<lanes> number = rounded<16>(bits) >> 16;
    return converted<std::uint16_t, lanes>(value != value ? quiet_nan : number);
  }
};

#if defined(__F16C__)

/// Float16 uses the masked intrinsics, because gcc 12 warns about the undefined values in the unmasked ones.
constexpr unsigned short every_lane = 0xffff;

struct Float16 {
  using Stored = std::uint16_t;
  using Value = float;
  template <int lanes>
  LOCKSTEP_INLINE static Floats<lanes> widen(const Bits16<lanes>& stored) {
    if constexpr (lanes == 1) return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(stored)));
    if constexpr (lanes == 8) return bits_as<Floats<lanes>>(_mm256_cvtph_ps(bits_as<__m128i>(stored)));
#if LOCKSTEP_VECTOR_BYTES >= 64
    if constexpr (lanes == 16)
      return bits_as<Floats<lanes>>(_mm512_maskz_cvtph_ps(every_lane, bits_as<__m256i>(stored)));
#endif
  }
  template <int lanes>
  LOCKSTEP_INLINE static Bits16<lanes> narrow(const Floats<lanes>& value) {
    if constexpr (lanes == 1) {
      return static_cast<std::uint16_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(value), _MM_FROUND_TO_NEAREST_INT)));
    }
    if constexpr (lanes == 8) {
      return bits_as<Bits16<lanes>>(_mm256_cvtps_ph(bits_as<__m256>(value), _MM_FROUND_TO_NEAREST_INT));
    }
#if LOCKSTEP_VECTOR_BYTES >= 64
    if constexpr (lanes == 16) {
      return bits_as<Bits16<lanes>>(
          _mm512_maskz_cvtps_ph(every_lane, bits_as<__m512>(value), _MM_FROUND_TO_NEAREST_INT));
    }
#endif
  }
};

#else

/// Converts as the instructions of F16C do, in integers: every case is computed and the right one selected.
struct Float16 {
  using Stored = std::uint16_t;
  using Value = float;
  static constexpr std::uint32_t rebias = (127U - 15U) << 23;

  template <int lanes>
  LOCKSTEP_INLINE static Floats<lanes> widen(const Bits16<lanes>& stored) {
    const auto bits = converted<std::uint32_t, lanes>(stored);
    const Bits32<lanes> magnitude = bits & 0x7fffU;
    const Bits32<lanes> normal = (magnitude << 13) + rebias;
    const Bits32<lanes> infinite = (magnitude << 13) | 0x7f800000U;
    const Bits32<lanes> quiet_nan = infinite | 0x400000U;
    // The exponent of 2^-14 adds an implicit one, which a denormal number does not have, so it is subtracted again.
    const auto one_too_much = bits_as<Floats<lanes>>((magnitude << 13) + ((127U - 14U) << 23));
    const auto denormal = bits_as<Bits32<lanes>>(one_too_much - 0x1p-14F);
    Bits32<lanes> result = magnitude < 0x400U ? denormal : normal;
    result = magnitude >= 0x7c00U ? infinite : result;
    result = magnitude > 0x7c00U ? quiet_nan : result;
    return bits_as<Floats<lanes>>(result | ((bits & 0x8000U) << 16));
  }
  template <int lanes>
  LOCKSTEP_INLINE static Bits16<lanes> narrow(const Floats<lanes>& value) {
    const auto bits = bits_as<Bits32<lanes>>(value);
    const Bits32<lanes> magnitude = bits & 0x7fffffffU;
    const Bits32<lanes> normal = (rounded<13>(magnitude) - rebias) >> 13;
    // The last place of 0.5 is that of a denormal float16, so the addition rounds.
    const Floats<lanes> at_half = bits_as<Floats<lanes>>(magnitude) + 0.5F;
    const auto denormal = bits_as<Bits32<lanes>>(at_half) - bits_as<std::uint32_t>(0.5F);
    const Bits32<lanes> quiet_nan = ((magnitude >> 13) & 0x3ffU) | 0x7e00U;
    const Bits32<lanes> infinite = Bits32<lanes>{} + 0x7c00U;
    Bits32<lanes> result = magnitude < bits_as<std::uint32_t>(0x1p-14F) ? denormal : normal;
    result = magnitude >= bits_as<std::uint32_t>(0x1p16F) ? infinite : result;
    result = magnitude > 0x7f800000U ? quiet_nan : result;
    return converted<std::uint16_t, lanes>(result | ((bits >> 16) & 0x8000U));
  }
};

#endif

}  // namespace
}  // namespace lockstep::kernels
