// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <compare>
#include <concepts>
#include <cstdint>
#include <utility>

#include "lockstep/base/version.hpp"

#if defined(__STDCPP_FLOAT16_T__) || defined(__STDCPP_BFLOAT16_T__)
#include <stdfloat>
#endif

namespace lockstep {

/// A process's number in a communicator, 0 ≤ value < size. It converts from and to int, as in `values[group.rank()]`
/// and `communicator.send(values, (group.rank() + 1) % group.size())`.
struct Rank {
  int value = 0;

  constexpr Rank() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a rank is written as a number
  constexpr Rank(int number) : value(number) {}  ///< the rank of this number
  // NOLINTNEXTLINE(google-explicit-constructor): and used as one
  constexpr operator int() const { return value; }  ///< its number
  friend constexpr auto operator<=>(const Rank&, const Rank&) = default;
};

/// A number of elements.
struct Count {
  std::int64_t value = 0;
  friend constexpr auto operator<=>(const Count&, const Count&) = default;
};

/// A number of bytes.
struct Bytes {
  std::int64_t value = 0;
  friend constexpr auto operator<=>(const Bytes&, const Bytes&) = default;
};

/// The types of integers that do not mix. They compare with integers, as in `group.rank() == 0`, and with their own
/// kind.
template <typename T>
concept StrongInteger = std::same_as<T, Rank> || std::same_as<T, Count> || std::same_as<T, Bytes>;

template <StrongInteger T>
constexpr bool operator==(T quantity, std::integral auto number) {
  return std::cmp_equal(quantity.value, number);
}
template <StrongInteger T>
constexpr std::strong_ordering operator<=>(T quantity, std::integral auto number) {
  if (std::cmp_less(quantity.value, number)) return std::strong_ordering::less;
  return std::cmp_equal(quantity.value, number) ? std::strong_ordering::equal : std::strong_ordering::greater;
}

/// The types of numbers of something. They add to their own kind and are multiplied and divided by integers. A division
/// rounds toward zero.
template <typename T>
concept Quantity = std::same_as<T, Count> || std::same_as<T, Bytes>;

template <Quantity T>
constexpr T operator+(T a, T b) {
  return {a.value + b.value};
}
template <Quantity T>
constexpr T operator-(T a, T b) {
  return {a.value - b.value};
}
template <Quantity T>
constexpr T& operator+=(T& sum, T more) {
  return sum = sum + more;
}
template <Quantity T>
constexpr T operator*(std::integral auto factor, T quantity) {
  return {factor * quantity.value};
}
template <Quantity T>
constexpr T operator*(T quantity, std::integral auto factor) {
  return {quantity.value * factor};
}
template <Quantity T>
constexpr T operator/(T quantity, std::integral auto divisor) {
  return {quantity.value / divisor};
}

/// An element of DType::bfloat16: the upper half of a float32. It stores a value; arithmetic is done in float, to which
/// it converts exactly. A float becomes one by rounding to nearest, ties to even; a NaN stays one and becomes quiet.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  constexpr explicit bfloat16(float value) : bits(narrowed(std::bit_cast<std::uint32_t>(value))) {}  ///< rounds
  // NOLINTNEXTLINE(google-explicit-constructor): the conversion is exact
  constexpr operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  /// Returns the number whose stored bits these are.
  static constexpr bfloat16 from_bits(std::uint16_t bits) { return std::bit_cast<bfloat16>(bits); }

 private:
  static constexpr std::uint16_t narrowed(std::uint32_t value) {
    const bool is_nan = (value & 0x7fffffffU) > 0x7f800000U;
    const std::uint32_t rounded = is_nan ? value | 0x400000U : value + 0x7fffU + ((value >> 16) & 1U);
    return static_cast<std::uint16_t>(rounded >> 16);
  }
};

/// An element of DType::float16, IEEE 754's binary16. It converts as bfloat16 does; a value that is beyond 65,504 after
/// rounding becomes infinite.
struct float16 {
  std::uint16_t bits;

  float16() = default;
  constexpr explicit float16(float value) : bits(narrowed(std::bit_cast<std::uint32_t>(value))) {}  ///< rounds
  // NOLINTNEXTLINE(google-explicit-constructor): the conversion is exact
  constexpr operator float() const { return std::bit_cast<float>(widened(bits)); }
  /// Returns the number whose stored bits these are.
  static constexpr float16 from_bits(std::uint16_t bits) { return std::bit_cast<float16>(bits); }

 private:
  static constexpr std::uint32_t rebias = (127U - 15U) << 23;  // between the exponents of the two formats

  static constexpr std::uint16_t narrowed(std::uint32_t value) {
    const std::uint32_t magnitude = value & 0x7fffffffU;
    std::uint32_t result = 0x7c00U;  // infinite
    if (magnitude > 0x7f800000U) {
      result = ((magnitude >> 13) & 0x3ffU) | 0x7e00U;
    } else if (magnitude <
               0x38800000U) {  // 2⁻¹⁴: below it, the addition rounds to what a subnormal number's places are
      result =
          std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
    } else if (magnitude < 0x47800000U) {  // 2¹⁶
      result = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - rebias) >> 13;
    }
    return static_cast<std::uint16_t>(result | ((value >> 16) & 0x8000U));
  }
  static constexpr std::uint32_t widened(std::uint32_t stored) {
    const std::uint32_t magnitude = (stored & 0x7fffU) << 13;
    std::uint32_t result = magnitude + rebias;
    if (magnitude >= 0x0f800000U) {  // infinite, or a NaN, which becomes quiet
      result = magnitude | (magnitude > 0x0f800000U ? 0x7fc00000U : 0x7f800000U);
    } else if (magnitude < 0x00800000U) {  // subnormal: with the exponent of 2⁻¹⁴, 1 × 2⁻¹⁴ is too much
      result = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude + rebias + 0x00800000U) - 0x1p-14F);
    }
    return result | ((stored & 0x8000U) << 16);
  }
};

#ifdef __STDCPP_FLOAT16_T__
template <typename T>
concept is_std_float16 = std::same_as<T, std::float16_t>;
#else
template <typename T>
concept is_std_float16 = false;
#endif
#ifdef __STDCPP_BFLOAT16_T__
template <typename T>
concept is_std_bfloat16 = std::same_as<T, std::bfloat16_t>;
#else
template <typename T>
concept is_std_bfloat16 = false;
#endif
/// The C++ types of 16-bit elements: those of lockstep, and those of the standard library if it has them.
template <typename T>
concept is_half = std::same_as<T, float16> || std::same_as<T, bfloat16> || is_std_float16<T> || is_std_bfloat16<T>;

}  // namespace lockstep
