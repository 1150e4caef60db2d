// SPDX-License-Identifier: Apache-2.0
#include "kernels/convert.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/instruction_set.hpp"

namespace lockstep::kernels {
namespace {

/// The definition of a format: sign, exponent, fraction.
struct Definition {
  int fraction_bits;
  int bias;
  int largest_exponent;  // largest stored exponent of a finite number
};
constexpr Definition float16_format{10, 15, 30};
constexpr Definition bfloat16_format{7, 127, 254};

double value_of(std::uint16_t bits, const Definition& d) {
  const int fraction = bits & ((1 << d.fraction_bits) - 1);
  const int exponent = (bits & 0x7fff) >> d.fraction_bits;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent > d.largest_exponent) return fraction == 0 ? sign * INFINITY : std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - d.bias - d.fraction_bits);
  return sign * std::ldexp(fraction + (1 << d.fraction_bits), exponent - d.bias - d.fraction_bits);
}

/// Returns the nearest number of the format, ties to even, computed by arithmetic alone. @pre `x` is not a NaN
double nearest(float x, const Definition& d) {
  const int exponent = x == 0 || std::isinf(x) ? 0 : std::max(std::ilogb(x), 1 - d.bias);
  const double unit = std::ldexp(1.0, exponent - d.fraction_bits);
  const double rounded = std::isinf(x) ? x : std::nearbyint(x / unit) * unit;
  const double largest = std::ldexp(2.0, d.largest_exponent - d.bias);  // one unit beyond the largest number
  return std::abs(rounded) >= largest ? std::copysign(INFINITY, x) : rounded;
}

bool same(double a, double b) { return a == b && std::signbit(a) == std::signbit(b); }

/// Returns all signs and exponents, with fractions around every value where the rounding changes.
std::vector<float> interesting_floats() {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (const std::uint32_t low :
         {0U, 1U, 0x0fffU, 0x1000U, 0x1001U, 0x2fffU, 0x3000U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU})
      values.push_back(std::bit_cast<float>(high << 16 | low));
  }
  return values;
}

std::vector<std::uint16_t> every_half() {
  std::vector<std::uint16_t> bits(1 << 16);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  return bits;
}

using Widen = void (*)(const std::uint16_t*, float*, std::int64_t);
using Narrow = void (*)(const float*, std::uint16_t*, std::int64_t);

void expect_exact(Widen widen, const Definition& d) {
  const auto halves = every_half();
  std::vector<float> floats(halves.size());
  widen(halves.data(), floats.data(), static_cast<std::int64_t>(halves.size()));
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const double expected = value_of(halves[i], d);
    ASSERT_TRUE(std::isnan(expected) ? std::isnan(floats[i]) : same(floats[i], expected)) << std::hex << halves[i];
  }
}

void expect_nearest(Narrow narrow, const Definition& d) {
  const auto floats = interesting_floats();
  std::vector<std::uint16_t> halves(floats.size());
  narrow(floats.data(), halves.data(), static_cast<std::int64_t>(floats.size()));
  const std::uint16_t quiet = static_cast<std::uint16_t>(1 << (d.fraction_bits - 1));
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const double actual = value_of(halves[i], d);
    const auto bits = std::bit_cast<std::uint32_t>(floats[i]);
    if (std::isnan(floats[i])) {
      ASSERT_TRUE(std::isnan(actual) && (halves[i] & quiet) != 0 && halves[i] >> 15 == bits >> 31) << std::hex << bits;
    } else {
      ASSERT_TRUE(same(actual, nearest(floats[i], d))) << std::hex << bits << " became " << halves[i];
    }
  }
}

/// Converts each element with its C++ type.
template <typename Half>
void widen_each(const std::uint16_t* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Half::from_bits(from[i]);
}
template <typename Half>
void narrow_each(const float* from, std::uint16_t* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Half(from[i]).bits;
}

TEST(SixteenBitElements, ConvertAsTheirFormatsAreDefined) {
  expect_exact(widen_each<float16>, float16_format);
  expect_exact(widen_each<bfloat16>, bfloat16_format);
  expect_nearest(narrow_each<float16>, float16_format);
  expect_nearest(narrow_each<bfloat16>, bfloat16_format);
  static_assert(float16(65520.0F) == std::numeric_limits<float>::infinity() && float16(65519.0F) == 65504);
  static_assert(std::is_trivial_v<bfloat16> && std::is_trivial_v<float16>);
}

class Conversion : public testing::TestWithParam<const InstructionSet*> {};

TEST_P(Conversion, ToFloat32IsExact) {
  expect_exact(GetParam()->widen_float16, float16_format);
  expect_exact(GetParam()->widen_bfloat16, bfloat16_format);
}

TEST_P(Conversion, ToSixteenBitsIsToTheNearestTiesToEven) {
  expect_nearest(GetParam()->narrow_float16, float16_format);
  expect_nearest(GetParam()->narrow_bfloat16, bfloat16_format);
}

/// Rounding also works in place, because values are rounded in their own memory.
TEST_P(Conversion, RoundsWhereItLiesToTheNearestTiesToEven) {
  const auto floats = interesting_floats();
  for (const auto& [round, definition] :
       {std::pair(GetParam()->round_float16, float16_format), std::pair(GetParam()->round_bfloat16, bfloat16_format)}) {
    auto rounded = floats;
    round(rounded.data(), rounded.data(), static_cast<std::int64_t>(rounded.size()));
    for (std::size_t i = 0; i < floats.size(); ++i) {
      ASSERT_TRUE(std::isnan(floats[i]) ? std::isnan(rounded[i]) : same(rounded[i], nearest(floats[i], definition)))
          << std::hex << std::bit_cast<std::uint32_t>(floats[i]) << " became " << rounded[i];
    }
  }
}

TEST_P(Conversion, GivesTheScalarBits) {
  const InstructionSet& scalar = *instruction_sets().front();
  const auto floats = interesting_floats();
  const auto halves = every_half();
  for (const auto narrow : {&InstructionSet::narrow_float16, &InstructionSet::narrow_bfloat16}) {
    std::vector<std::uint16_t> expected(floats.size());
    std::vector<std::uint16_t> actual(floats.size());
    (scalar.*narrow)(floats.data(), expected.data(), static_cast<std::int64_t>(floats.size()));
    (GetParam()->*narrow)(floats.data(), actual.data(), static_cast<std::int64_t>(floats.size()));
    EXPECT_EQ(actual, expected);
  }
  for (const auto widen : {&InstructionSet::widen_float16, &InstructionSet::widen_bfloat16}) {
    std::vector<float> expected(halves.size());
    std::vector<float> actual(halves.size());
    (scalar.*widen)(halves.data(), expected.data(), static_cast<std::int64_t>(halves.size()));
    (GetParam()->*widen)(halves.data(), actual.data(), static_cast<std::int64_t>(halves.size()));
    for (std::size_t i = 0; i < halves.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(actual[i]), std::bit_cast<std::uint32_t>(expected[i]))
          << std::hex << halves[i];
    }
  }
}

TEST_P(Conversion, WritesNoElementTooMany) {
  for (std::int64_t count = 0; count < 70; ++count) {
    std::vector<float> floats(80, 1.0F);
    std::vector<std::uint16_t> halves(80, 0x4000);
    GetParam()->narrow_float16(floats.data(), halves.data(), count);
    GetParam()->widen_bfloat16(halves.data(), floats.data(), count);
    std::vector<float> rounded(80, 1.001F);
    GetParam()->round_bfloat16(rounded.data(), rounded.data(), count);
    for (std::size_t i = 0; i < 80; ++i) {
      const bool inside = i < static_cast<std::size_t>(count);
      ASSERT_EQ(halves[i], inside ? 0x3c00 : 0x4000);
      ASSERT_EQ(floats[i] == 1.0F, !inside);
      ASSERT_EQ(rounded[i], inside ? 1.0F : 1.001F);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Conversion, testing::ValuesIn(instruction_sets().begin(), instruction_sets().end()),
                         [](const auto& each) { return std::string(each.param->name); });

TEST(Convert, TakesSpansOfEitherFormat) {
  const std::vector<float> numbers = {1.0F, -2.5F, 0.0F};
  std::vector<float16> halves(3);
  std::vector<bfloat16> brains(3);
  convert(numbers, std::span(halves));
  convert(numbers, std::span(brains));
  EXPECT_EQ(halves[1].bits, 0xc100);
  EXPECT_EQ(brains[1].bits, 0xc020);
  std::vector<float> back(3);
  convert(std::span<const float16>(halves), back);
  EXPECT_EQ(back, numbers);
  convert(std::span<const bfloat16>(brains), back);
  EXPECT_EQ(back, numbers);
  convert(std::span<const float>(), std::span<float16>());
  const std::vector<float> third = {1.0F / 3};
  round_to(DType::float16, third, back = {0});
  EXPECT_EQ(back[0], 0x1.554p-2F);
  round_to(DType::bfloat16, third, back);
  EXPECT_EQ(back[0], 0x1.56p-2F);
}

}  // namespace
}  // namespace lockstep::kernels
