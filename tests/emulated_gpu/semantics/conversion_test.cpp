// SPDX-License-Identifier: Apache-2.0
// Compares half and bfloat16 on the device bit by bit with their definitions in IEEE 754.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "emulated_gpu/semantics/kernels.hpp"
#include "emulated_gpu/semantics/support.hpp"

namespace emulated_gpu::semantics {
namespace {

class CudaConversion : public Gpu {};

/// A binary format of 16 bits.
struct Format {
  int exponent_bits;
  int fraction_bits;
  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] std::uint16_t infinity() const {
    return static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
  }
  /// Returns the value of bits without a sign; infinity is the power of two that its bits would otherwise stand for.
  [[nodiscard]] double magnitude(std::uint16_t bits) const {
    const int exponent = bits >> fraction_bits;
    const int fraction = bits & ((1 << fraction_bits) - 1);
    if (exponent == 0) return std::ldexp(fraction, 1 - bias() - fraction_bits);
    return std::ldexp(fraction + (1 << fraction_bits), exponent - bias() - fraction_bits);
  }
};
constexpr Format half{5, 10};
constexpr Format bfloat16{8, 7};
constexpr std::uint16_t sign = 0x8000;

struct Rounding {
  std::vector<float> from;
  std::vector<std::uint16_t> to;
  void add(double value, std::uint16_t bits) {
    const auto single = static_cast<float>(value);
    from.push_back(single);
    to.push_back(bits);
    from.push_back(-single);
    to.push_back(static_cast<std::uint16_t>(bits | sign));
  }
};

/// Returns every value of the format, each middle between two neighbors, which rounds to the even one, and the floats
/// next to it.
Rounding all_roundings(const Format& format) {
  Rounding all;
  for (std::uint16_t bits = 0; bits < format.infinity(); ++bits) {
    const auto next = static_cast<std::uint16_t>(bits + 1);
    const double middle = (format.magnitude(bits) + format.magnitude(next)) / 2;
    const auto single = static_cast<float>(middle);
    all.add(format.magnitude(bits), bits);
    if (single != middle) continue;  // less than the smallest float
    all.add(middle, bits % 2 == 0 ? bits : next);
    all.add(std::nextafter(single, 0.0F), bits);
    all.add(std::nextafter(single, std::numeric_limits<float>::infinity()), next);
  }
  all.add(std::numeric_limits<double>::infinity(), format.infinity());
  return all;
}

using Narrow = cudaError_t (*)(const float*, std::uint16_t*, int, cudaStream_t);
using Widen = cudaError_t (*)(const std::uint16_t*, float*, int, cudaStream_t);

std::vector<std::uint16_t> narrowed(const std::vector<float>& values, Narrow narrow) {
  const Array<float> from(values);
  const Array<std::uint16_t> to(values.size());
  const Stream stream;
  check(narrow(from.data(), to.data(), static_cast<int>(values.size()), stream));
  return to.values();
}

std::vector<float> widened(const std::vector<std::uint16_t>& bits, Widen widen) {
  const Array<std::uint16_t> from(bits);
  const Array<float> to(bits.size());
  const Stream stream;
  check(widen(from.data(), to.data(), static_cast<int>(bits.size()), stream));
  return to.values();
}

void expect_nearest(const Format& format, Narrow narrow) {
  const Rounding all = all_roundings(format);
  const std::vector<std::uint16_t> bits = narrowed(all.from, narrow);
  for (std::size_t i = 0; i < bits.size(); ++i) ASSERT_EQ(bits[i], all.to[i]) << all.from[i];
}

void expect_exact(const Format& format, Widen widen) {
  std::vector<std::uint16_t> bits;
  for (int i = 0; i < 0x10000; ++i) bits.push_back(static_cast<std::uint16_t>(i));
  const std::vector<float> values = widened(bits, widen);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const auto without_sign = static_cast<std::uint16_t>(bits[i] & ~sign);
    if (without_sign > format.infinity()) {
      ASSERT_TRUE(std::isnan(values[i])) << i;
      continue;
    }
    const double magnitude =
        without_sign == format.infinity() ? std::numeric_limits<double>::infinity() : format.magnitude(without_sign);
    ASSERT_EQ(std::abs(values[i]), magnitude) << i;
    ASSERT_EQ(std::signbit(values[i]), bits[i] >= sign) << i;
  }
}

// CUDA Math API, Half Precision Conversion and Data Movement: __float2half_rn rounds to the nearest even
TEST_F(CudaConversion, ToHalfIsToTheNearest) { expect_nearest(half, launch_to_half); }

// CUDA Math API, Half Precision Conversion and Data Movement: __half2float
TEST_F(CudaConversion, FromHalfIsExact) { expect_exact(half, launch_from_half); }

// CUDA Math API, Bfloat16 Precision Conversion and Data Movement: __float2bfloat16_rn rounds to the nearest even
TEST_F(CudaConversion, ToBfloat16IsToTheNearest) { expect_nearest(bfloat16, launch_to_bfloat16); }

// CUDA Math API, Bfloat16 Precision Conversion and Data Movement: __bfloat162float
TEST_F(CudaConversion, FromBfloat16IsExact) { expect_exact(bfloat16, launch_from_bfloat16); }

// CUDA Math API, Half and Bfloat16 Precision Conversion: a NaN stays a NaN
TEST_F(CudaConversion, OfNoNumberIsNone) {
  const std::vector<float> nan = {std::numeric_limits<float>::quiet_NaN()};
  EXPECT_TRUE(std::isnan(widened(narrowed(nan, launch_to_half), launch_from_half)[0]));
  EXPECT_TRUE(std::isnan(widened(narrowed(nan, launch_to_bfloat16), launch_from_bfloat16)[0]));
}

// CUDA Math API, Half Arithmetic Functions: __hadd is rounded once, to the nearest even
TEST_F(CudaConversion, SumsOfHalvesAreToTheNearest) {
  // 1 + 2⁻¹¹ is the middle between 1 and its successor 1 + 2⁻¹⁰; 65504 is the largest number, and 16 more is the middle
  // to infinity.
  const std::vector<std::uint16_t> a = {0x3c00, 0x3c01, 0x3c00, 0x7bff, 0x7bff, 0x0001};
  const std::vector<std::uint16_t> b = {0x1000, 0x1000, 0x1001, 0x4c00, 0x4bff, 0x0001};
  const std::vector<std::uint16_t> expected = {0x3c00, 0x3c02, 0x3c01, 0x7c00, 0x7bff, 0x0002};
  const Array<std::uint16_t> first(a);
  const Array<std::uint16_t> second(b);
  const Array<std::uint16_t> sum(a.size());
  const Stream stream;
  ASSERT_EQ(launch_add_half(first.data(), second.data(), sum.data(), static_cast<int>(a.size()), stream), cudaSuccess);
  EXPECT_EQ(sum.values(), expected);
}

}  // namespace
}  // namespace emulated_gpu::semantics
