// SPDX-License-Identifier: Apache-2.0
#pragma once

// The arithmetic of elements on a GPU is the same bit for bit as in the CPU's kernels (kernels/cpu/formats.hpp,
// combine.hpp). This file is also plain C++, so that a test compares the two on a machine without a GPU.

#include <cstdint>
#include <limits>
#include <type_traits>

#if defined(__CUDACC__)
#define LOCKSTEP_HOST_DEVICE __host__ __device__
#else
#define LOCKSTEP_HOST_DEVICE
#endif

namespace lockstep::kernels::cuda {

template <typename To, typename From>
LOCKSTEP_HOST_DEVICE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

// Formats of elements: the type in memory (Stored), and the type of the arithmetic (Value).

template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  LOCKSTEP_HOST_DEVICE static T widen(T stored) { return stored; }
  LOCKSTEP_HOST_DEVICE static T narrow(T value) { return value; }
};

/// Rounds `bits` to nearest, ties to even, at bit `dropped`: the bits from there upwards are the result.
template <int dropped>
LOCKSTEP_HOST_DEVICE std::uint32_t rounded(std::uint32_t bits) {
  return bits + ((1U << (dropped - 1)) - 1U) + ((bits >> dropped) & 1U);
}

struct BFloat16 {
  using Stored = std::uint16_t;
  using Value = float;
  LOCKSTEP_HOST_DEVICE static float widen(std::uint16_t stored) {
    return bits_as<float>(static_cast<std::uint32_t>(stored) << 16);
  }
  LOCKSTEP_HOST_DEVICE static std::uint16_t narrow(float value) {
    const auto bits = bits_as<std::uint32_t>(value);
    const std::uint32_t quiet_nan = (bits >> 16) | 0x40U;
    return static_cast<std::uint16_t>(value != value ? quiet_nan : rounded<16>(bits) >> 16);
  }
};

struct Float16 {
  using Stored = std::uint16_t;
  using Value = float;
  static constexpr std::uint32_t rebias = (127U - 15U) << 23;
  static constexpr std::uint32_t half = 126U << 23;  // 0.5

  LOCKSTEP_HOST_DEVICE static float widen(std::uint16_t stored) {
    const std::uint32_t magnitude = stored & 0x7fffU;
    const std::uint32_t sign = (stored & 0x8000U) << 16;
    if (magnitude > 0x7c00U) return bits_as<float>(sign | (magnitude << 13) | 0x7fc00000U);
    if (magnitude == 0x7c00U) return bits_as<float>(sign | 0x7f800000U);
    if (magnitude >= 0x400U) return bits_as<float>(sign | ((magnitude << 13) + rebias));
    // The exponent of 2^-14 adds an implicit one, which a denormal number does not have, so it is subtracted again.
    const auto one_too_much = bits_as<float>((magnitude << 13) + ((127U - 14U) << 23));
    return bits_as<float>(sign | bits_as<std::uint32_t>(one_too_much - 0x1p-14F));
  }
  LOCKSTEP_HOST_DEVICE static std::uint16_t narrow(float value) {
    const auto bits = bits_as<std::uint32_t>(value);
    return static_cast<std::uint16_t>(narrow_magnitude(bits & 0x7fffffffU) | ((bits >> 16) & 0x8000U));
  }

 private:
  LOCKSTEP_HOST_DEVICE static std::uint32_t narrow_magnitude(std::uint32_t magnitude) {
    if (magnitude > 0x7f800000U) return ((magnitude >> 13) & 0x3ffU) | 0x7e00U;
    if (magnitude >= (127U + 16U) << 23) return 0x7c00U;
    if (magnitude >= (127U - 14U) << 23) return (rounded<13>(magnitude) - rebias) >> 13;
    // The last place of 0.5 is that of a denormal float16, so the addition rounds.
    return bits_as<std::uint32_t>(bits_as<float>(magnitude) + 0.5F) - half;
  }
};

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// The result of arithmetic on a and b with the NaN that an x86 processor returns: the first operand that is a NaN,
/// made quiet, or a negative NaN of its own if neither is. A GPU would return the same NaN every time.
template <typename T>
LOCKSTEP_HOST_DEVICE T with_nan_of(T a, T b, T result) {
  if constexpr (std::is_floating_point_v<T>) {
    if (result != result) {
      constexpr auto quiet = static_cast<BitsOf<T>>(BitsOf<T>{1} << (std::numeric_limits<T>::digits - 2));
      if (a != a) return bits_as<T>(bits_as<BitsOf<T>>(a) | quiet);
      if (b != b) return bits_as<T>(bits_as<BitsOf<T>>(b) | quiet);
      return bits_as<T>(~(quiet - 1));
    }
  }
  return result;
}

/// Returns one of the two with all its bits, because a minimum on a GPU would replace a NaN by its own.
template <typename T>
LOCKSTEP_HOST_DEVICE T either(bool second, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return bits_as<T>(second ? bits_as<BitsOf<T>>(b) : bits_as<BitsOf<T>>(a));
  } else {
    return second ? b : a;
  }
}

template <typename T>
LOCKSTEP_HOST_DEVICE bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value != value;
  } else {
    return false;
  }
}

struct Sum {
  template <typename T>
  LOCKSTEP_HOST_DEVICE static T apply(T a, T b) {
    return with_nan_of(a, b, static_cast<T>(a + b));
  }
};

struct Product {
  template <typename T>
  LOCKSTEP_HOST_DEVICE static T apply(T a, T b) {
    return with_nan_of(a, b, static_cast<T>(a * b));
  }
};

struct Min {
  template <typename T>
  LOCKSTEP_HOST_DEVICE static T apply(T a, T b) {
    return either(b < a || is_nan(b), a, b);
  }
};

struct Max {
  template <typename T>
  LOCKSTEP_HOST_DEVICE static T apply(T a, T b) {
    return either(b > a || is_nan(b), a, b);
  }
};

}  // namespace lockstep::kernels::cuda
