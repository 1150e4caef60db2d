// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace lockstep::kernels {
namespace {

/// Returns exp(score) as the softmax of a score below a largest one of 0 computes it, before the division by the sum.
std::vector<float> exponentials(const std::vector<float>& scores) {
  const std::vector<float> zeros(scores.size(), 0);
  const std::vector<float> ones(scores.size(), 1);
  const std::vector<std::int32_t> labels(scores.size(), 1);
  std::vector<float> results(scores.size(), 7);
  set_cross_entropy_gradient(ClassScores<float>{scores.data(), 1, 0, std::ssize(scores)}, 0,
                             {zeros.data(), ones.data()}, {labels.data(), ones.data(), ones.data(), ones.data()}, 0,
                             results.data());
  return results;
}

TEST(Softmax, HasExponentialsWithinTheLastPlaces) {
  std::vector<float> scores;
  for (double x = 0; x > -87.33; x -= 1.3e-4) scores.push_back(static_cast<float>(x));
  const std::vector<float> found = exponentials(scores);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double exact = std::exp(static_cast<double>(scores[i]));
    ASSERT_NEAR(found[i], exact, 1.2 * std::ldexp(1.0, std::ilogb(exact) - 23)) << scores[i];
  }
}

TEST(Softmax, HasExponentialsOfAllNumbers) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> found = exponentials({0, -0.0F, -1e-30F, -87.34F, -1000, -infinity, std::nanf("")});
  EXPECT_EQ(std::vector(found.begin(), found.end() - 1), (std::vector<float>{1, 1, 1, 0, 0, 0}));
  EXPECT_TRUE(std::isnan(found.back()));
}

TEST(Softmax, IsOfEachPositionWithTheFirstOfTheLargest) {
  const std::array<float, 9> scores = {1, 5, -3, 3, 5, -3, 2, 4, -3};  // three classes at three positions
  std::array<float, 3> largest{};
  std::array<std::int32_t, 3> winner{};
  std::array<float, 3> sum{};
  set_softmax(ClassScores<float>{scores.data(), 3, 3, 3}, largest.data(), winner.data(), sum.data());
  EXPECT_EQ(largest, (std::array<float, 3>{3, 5, -3}));
  EXPECT_EQ(winner, (std::array<std::int32_t, 3>{1, 0, 0}));
  EXPECT_FLOAT_EQ(sum[0], std::exp(-2.0F) + 1 + std::exp(-1.0F));
  EXPECT_FLOAT_EQ(sum[1], 2 + std::exp(-1.0F));
  EXPECT_EQ(sum[2], 3);
}

TEST(Softmax, APositionThatDoesNotCountHasNoGradient) {
  const std::array<float, 2> scores = {std::nanf(""), 1};
  const std::array<float, 2> largest = {std::nanf(""), 2};
  const std::array<float, 2> sum = {std::nanf(""), 4};
  const std::array<std::int32_t, 2> labels = {0, 0};
  const std::array<float, 2> scale = {0, 10};
  const std::array<float, 2> mass = {1, 0.5F};
  const std::array<float, 2> own = {1, 0.25F};
  std::array<float, 2> gradient = {7, 7};
  set_cross_entropy_gradient(ClassScores<float>{scores.data(), 1, 2, 2}, 0, {largest.data(), sum.data()},
                             {labels.data(), scale.data(), mass.data(), own.data()}, 0.125F, gradient.data());
  EXPECT_EQ(gradient[0], 0);
  EXPECT_FLOAT_EQ(gradient[1], 10 * (0.5F * std::exp(-1.0F) / 4 - 0.25F - 0.125F));
}

}  // namespace
}  // namespace lockstep::kernels
