#include "lockstep/kernels/reduce.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace lockstep::kernels {
namespace {

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::float32;
  if constexpr (std::is_same_v<T, double>) return DType::float64;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::int32;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::int64;
  return DType::uint8;
}

template <typename T>
class Reduce : public testing::Test {};
using Elements = testing::Types<float, double, std::int32_t, std::int64_t, std::uint8_t>;
TYPED_TEST_SUITE(Reduce, Elements);

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
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
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

TEST(ReduceInteger, SumsWrapRound) {
  const std::int32_t a[] = {std::numeric_limits<std::int32_t>::max()};
  const std::int32_t b[] = {1};
  std::int32_t out[1] = {};
  reduce(out, a, b, {1}, DType::int32, ReduceOp::sum);
  EXPECT_EQ(out[0], std::numeric_limits<std::int32_t>::lowest());
}

}  // namespace
}  // namespace lockstep::kernels
