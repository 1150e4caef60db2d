// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduce.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/awkward_elements.hpp"
#include "kernels/convert.hpp"

namespace lockstep::kernels {
namespace {

template <typename T>
class Reduce : public testing::Test {};
using ElementTypes =
    testing::Types<float, double, std::int32_t, std::int64_t, std::uint8_t, std::int8_t, std::int16_t, std::uint16_t>;
TYPED_TEST_SUITE(Reduce, ElementTypes);

TYPED_TEST(Reduce, EveryOperatorAtEveryLengthAroundAVector) {
  for (std::int64_t n = 0; n < 70; ++n) {
    std::vector<TypeParam> a(n);
    std::vector<TypeParam> b(n);
    std::vector<TypeParam> out(n);
    for (std::int64_t i = 0; i < n; ++i) {
      a[i] = static_cast<TypeParam>(3 * i % 50);
      b[i] = static_cast<TypeParam>((7 * i + 5) % 50);
    }
    reduce(out.data(), a.data(), b.data(), {n}, dtype_of<TypeParam>(), ReduceOp::sum);
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(out[i], static_cast<TypeParam>(a[i] + b[i]));
    reduce(out.data(), a.data(), b.data(), {n}, dtype_of<TypeParam>(), ReduceOp::min);
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(out[i], std::min(a[i], b[i]));
    reduce(out.data(), a.data(), b.data(), {n}, dtype_of<TypeParam>(), ReduceOp::max);
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(out[i], std::max(a[i], b[i]));
    reduce(out.data(), a.data(), b.data(), {n}, dtype_of<TypeParam>(), ReduceOp::product);
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(out[i], static_cast<TypeParam>(a[i] * b[i]));
    if constexpr (std::is_integral_v<TypeParam>) {
      const auto expect = [&](ReduceOp op, const auto& of) {
        reduce(out.data(), a.data(), b.data(), {n}, dtype_of<TypeParam>(), op);
        for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(out[i], static_cast<TypeParam>(of(a[i], b[i]))) << name(op);
      };
      expect(ReduceOp::logical_and, [](auto x, auto y) { return x != 0 && y != 0; });
      expect(ReduceOp::logical_or, [](auto x, auto y) { return x != 0 || y != 0; });
      expect(ReduceOp::logical_xor, [](auto x, auto y) { return (x != 0) != (y != 0); });
      expect(ReduceOp::bit_and, [](auto x, auto y) { return x & y; });
      expect(ReduceOp::bit_or, [](auto x, auto y) { return x | y; });
      expect(ReduceOp::bit_xor, [](auto x, auto y) { return x ^ y; });
    }
  }
}

TYPED_TEST(Reduce, WorksInPlaceOnEitherSide) {
  const std::vector<TypeParam> a{1, 2, 3};
  const std::vector<TypeParam> b{10, 20, 30};
  const std::vector<TypeParam> expected{11, 22, 33};
  std::vector<TypeParam> left = a;
  reduce(left.data(), left.data(), b.data(), {3}, dtype_of<TypeParam>(), ReduceOp::sum);
  EXPECT_EQ(left, expected);
  std::vector<TypeParam> right = b;
  reduce(right.data(), a.data(), right.data(), {3}, dtype_of<TypeParam>(), ReduceOp::sum);
  EXPECT_EQ(right, expected);
}

TYPED_TEST(Reduce, NeutralElementChangesNoBit) {
  std::vector<TypeParam> values{std::numeric_limits<TypeParam>::lowest(), std::numeric_limits<TypeParam>::max(), 0, 1};
  if constexpr (std::is_floating_point_v<TypeParam>) {
    values.insert(values.end(), {-TypeParam{0}, std::numeric_limits<TypeParam>::denorm_min(),
                                 std::numeric_limits<TypeParam>::infinity()});
  }
  const Count n{static_cast<std::int64_t>(values.size())};
  for (const ReduceOp op : ops_of(dtype_of<TypeParam>())) {
    if (is_logical(op)) continue;  // gives 0 or 1
    std::vector<TypeParam> neutral(values.size());
    fill_neutral(neutral.data(), n, dtype_of<TypeParam>(), op);
    std::vector<TypeParam> out(values.size());
    reduce(out.data(), neutral.data(), values.data(), n, dtype_of<TypeParam>(), op);
    EXPECT_EQ(std::memcmp(out.data(), values.data(), values.size() * sizeof(TypeParam)), 0) << name(op);
  }
}

TEST(ReduceFloat, NanWinsOverNumbersInMinAndMax) {
  const float nan = std::nanf("");
  const float a[] = {nan, 1.0F};
  const float b[] = {1.0F, nan};
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    float out[2] = {};
    reduce(out, a, b, {2}, DType::float32, op);
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_TRUE(std::isnan(out[1]));
  }
}

template <typename Half>
class ReduceHalf : public testing::Test {
 protected:
  static constexpr DType dtype = std::is_same_v<Half, float16> ? DType::float16 : DType::bfloat16;
  static std::vector<Half> halves(const std::vector<float>& values) {
    std::vector<Half> result(values.size());
    convert(values, std::span(result));
    return result;
  }
  static std::vector<float> floats(const std::vector<Half>& values) {
    std::vector<float> result(values.size());
    convert(std::span<const Half>(values), result);
    return result;
  }
};
using Halves = testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(ReduceHalf, Halves);

/// If each partial sum were rounded, 256 + ½ + ½ + … would stay 256 in bfloat16, and 2048 + … would stay 2048 in
/// float16.
TYPED_TEST(ReduceHalf, RoundsOnceOverAllInputs) {
  const float large = TestFixture::dtype == DType::float16 ? 2048.0F : 256.0F;
  const auto first = TestFixture::halves({large});
  const auto half = TestFixture::halves({0.5F});
  std::vector<TypeParam> out(1);
  void* const outs[] = {out.data()};
  std::vector<const void*> ins = {first.data()};
  for (int added = 1; added <= 8; ++added) {
    ins.push_back(half.data());
    combine(outs, ins, {1}, TestFixture::dtype, ReduceOp::sum);
    const float exact = large + 0.5F * static_cast<float>(added);
    EXPECT_EQ(TestFixture::floats(out)[0], TestFixture::floats(TestFixture::halves({exact}))[0]) << added;
  }
  EXPECT_EQ(TestFixture::floats(out)[0], large + 4);
}

TYPED_TEST(ReduceHalf, NeutralElementChangesNoBit) {
  const auto values = TestFixture::halves({-0.0F, 0.0F, 1.5F, -3e4F, std::numeric_limits<float>::infinity(), 6e-8F});
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
    std::vector<TypeParam> out(values.size());
    const Count n{static_cast<std::int64_t>(values.size())};
    fill_neutral(out.data(), n, TestFixture::dtype, op);
    reduce(out.data(), out.data(), values.data(), n, TestFixture::dtype, op);
    EXPECT_EQ(std::memcmp(out.data(), values.data(), values.size() * sizeof(TypeParam)), 0) << name(op);
  }
}

/// 2^53 + 1 − 2^53 is 0 if added from the left, and 1 if added from the right.
TEST(Combine, AddsFromLeftToRight) {
  const double inputs[] = {0x1p53, 1, -0x1p53, 1, 0.5};
  for (std::size_t n = 3; n <= 5; ++n) {
    std::vector<const void*> ins;
    double expected = inputs[0];
    for (std::size_t k = 0; k < n; ++k) ins.push_back(&inputs[k]);
    for (std::size_t k = 1; k < n; ++k) expected += inputs[k];
    double out = 0;
    void* const outs[] = {&out};
    combine(outs, ins, {1}, DType::float64, ReduceOp::sum);
    EXPECT_EQ(out, expected) << n << " inputs";
  }
}

TEST(Combine, WritesEveryOutputOfWhichSomeAreInputs) {
  for (const Residence residence : {Residence::cache, Residence::memory}) {
    for (std::size_t n = 1; n <= 6; ++n) {
      std::vector<std::vector<float>> arrays;
      std::vector<float> expected(1000);
      for (std::size_t k = 0; k < n; ++k) {
        arrays.emplace_back(1000);
        for (std::size_t i = 0; i < 1000; ++i) expected[i] += arrays[k][i] = static_cast<float>(i * (k + 1) % 251);
      }
      arrays.emplace_back(1000);
      std::vector<const void*> ins;
      std::vector<void*> outs;
      for (std::size_t k = 0; k < n; ++k) ins.push_back(arrays[k].data());
      for (auto& array : arrays) outs.push_back(array.data());
      combine(outs, ins, {1000}, DType::float32, ReduceOp::sum, residence);
      for (const auto& array : arrays) EXPECT_EQ(array, expected) << n << " inputs";
    }
  }
}

TEST(Combine, OfOneInputCopiesEveryBit) {
  std::vector<std::uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint16_t> copy(all.size());
  void* const outs[] = {copy.data()};
  const void* const ins[] = {all.data()};
  combine(outs, ins, {1 << 16}, DType::float16, ReduceOp::max);
  EXPECT_EQ(copy, all);
}

TEST(ReduceBoolean, HasTheLogicalOperatorThatEachOperatorIs) {
  const std::uint8_t a[] = {0, 0, 1, 1};
  const std::uint8_t b[] = {0, 1, 0, 1};
  const std::vector<std::uint8_t> both{0, 0, 0, 1};
  const std::vector<std::uint8_t> any{0, 1, 1, 1};
  const std::vector<std::uint8_t> one{0, 1, 1, 0};
  const auto of = [&](ReduceOp op) {
    std::vector<std::uint8_t> out(4);
    reduce(out.data(), a, b, {4}, DType::boolean, op);
    std::vector<std::uint8_t> neutral(4);
    fill_neutral(neutral.data(), {4}, DType::boolean, op);
    reduce(neutral.data(), neutral.data(), a, {4}, DType::boolean, op);
    EXPECT_EQ(neutral, std::vector<std::uint8_t>(std::begin(a), std::end(a))) << name(op);
    return out;
  };
  for (const ReduceOp op : {ReduceOp::product, ReduceOp::min, ReduceOp::logical_and, ReduceOp::bit_and})
    EXPECT_EQ(of(op), both) << name(op);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::logical_or, ReduceOp::bit_or})
    EXPECT_EQ(of(op), any) << name(op);
  for (const ReduceOp op : {ReduceOp::logical_xor, ReduceOp::bit_xor}) EXPECT_EQ(of(op), one) << name(op);
}

TEST(ReduceComplex, AddsAndDividesBothParts) {
  std::complex<double> a[] = {{1, -2}, {0.5, 3}};
  const std::complex<double> b[] = {{3, 4}, {1.5, -1}};
  reduce(a, a, b, {2}, DType::complex128, ReduceOp::sum);
  EXPECT_EQ(a[0], std::complex<double>(4, 2));
  EXPECT_EQ(a[1], std::complex<double>(2, 2));
  divide(Buffer(a), 2);
  EXPECT_EQ(a[0], std::complex<double>(2, 1));
  EXPECT_EQ(a[1], std::complex<double>(1, 1));
}

TEST(ReduceInteger, SumsWrapRound) {
  const std::int32_t a[] = {std::numeric_limits<std::int32_t>::max()};
  const std::int32_t b[] = {1};
  std::int32_t out[1] = {};
  reduce(out, a, b, {1}, DType::int32, ReduceOp::sum);
  EXPECT_EQ(out[0], std::numeric_limits<std::int32_t>::lowest());
}

/// The divisor of an average is the number of ranks, which may be more than the element can hold.
TEST(Divide, ByMoreThanTheElementHolds) {
  std::uint8_t values[] = {255, 128, 0};
  divide(Buffer(values), 256);
  for (const std::uint8_t value : values) EXPECT_EQ(value, 0);
  std::uint8_t last[] = {255};
  divide(Buffer(last), 255);
  EXPECT_EQ(last[0], 1);
  std::int64_t wide[] = {-7, std::int64_t{1} << 40};
  divide(Buffer(wide), 2);
  EXPECT_EQ(wide[0], -3);
  EXPECT_EQ(wide[1], std::int64_t{1} << 39);
}

}  // namespace
}  // namespace lockstep::kernels
