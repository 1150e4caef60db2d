// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lockstep/ops/reference.hpp"
#include "ops/libraries.hpp"

/// Tests updates of many tensors at once.
namespace lockstep::ops::test {
namespace {

using PerTensor = std::vector<std::vector<float>>;  // by tensor

/// Some tensors are in three slices, whose squares go to one sum, and some have no trust ratio. A GPU takes their
/// number in several launches, and their sums in one part, in a few, and in many.
constexpr std::array lengths{1, 300, 2000, 257, 256, 9000, 3};
constexpr std::size_t tensors = 7 * lengths.size();
constexpr UpdateScalars scalars{
    .learning_rate = 0.25, .gradient_scale = 0.5, .first_correction = 0.1, .second_correction = 0.01};

/// Returns a value for each element that differs from tensor to tensor.
PerTensor sines(double factor) {
  PerTensor all;
  for (std::size_t t = 0; t < tensors; ++t) {
    std::vector<float>& values = all.emplace_back();
    for (int i = 0; i < lengths[t % lengths.size()]; ++i)
      values.push_back(static_cast<float>(std::sin(factor * (i + 1.5 * static_cast<double>(t) + 1))));
  }
  return all;
}

struct Training {
  PerTensor weights = sines(1.3);
  PerTensor gradients = sines(0.7);
  PerTensor first = sines(0.1);
  PerTensor second = sines(0);
  std::vector<double> squares = std::vector<double>(2 * tensors);

  explicit Training(UpdateRule rule) {
    for (std::vector<float>& values : second) std::fill(values.begin(), values.end(), 0.5F);
    const bool has_trust = rule == UpdateRule::lars || rule == UpdateRule::lamb;
    for (std::size_t t = 0; t < tensors; ++t) {
      const std::size_t tensor = t % 6 < 3 ? t : t - (t % 6 - 2);
      steps.push_back({.rule = rule,
                       .parameters = weights[t].data(),
                       .gradients = gradients[t].data(),
                       .first = first[t].data(),
                       .second = second[t].data(),
                       .count = {std::ssize(weights[t])},
                       .momentum = 0.9,
                       .nesterov = t % 3 == 0,
                       .beta2 = 0.99,
                       .epsilon = 1e-6,
                       .weight_decay = t % 2 == 0 ? 0.01 : 0,
                       .trust_coefficient = 0.02,
                       .squares = has_trust && t % 6 != 5 ? &squares[2 * tensor] : nullptr,
                       .scalars = &scalars});
    }
  }
  Training(const Training&) = delete;

  std::vector<UpdateStep> steps;
};

constexpr UpdateRule rules[] = {UpdateRule::sgd, UpdateRule::lars, UpdateRule::adamw, UpdateRule::lamb};

TEST(Updates, OfManyTensorsAreThoseOfEach) {
  for (const auto& ops : libraries()) {
    for (const UpdateRule rule : rules) {
      SCOPED_TRACE(std::string(ops->name()) + ", " + std::to_string(static_cast<int>(rule)));
      Training together(rule);
      ops->measure_update(together.steps);
      ops->update(together.steps);
      Training apart(rule);
      for (const UpdateStep& step : apart.steps) ops->measure_update({&step, 1});
      for (const UpdateStep& step : apart.steps) ops->update({&step, 1});
      EXPECT_EQ(together.squares, apart.squares);
      EXPECT_EQ(together.weights, apart.weights);
      EXPECT_EQ(together.first, apart.first);
      EXPECT_EQ(together.second, apart.second);
    }
  }
}

TEST(Updates, AreNearTheReference) {
  const auto reference = make_reference_ops();
  for (const auto& ops : libraries()) {
    for (const UpdateRule rule : rules) {
      SCOPED_TRACE(std::string(ops->name()) + ", " + std::to_string(static_cast<int>(rule)));
      Training expected(rule);
      Training actual(rule);
      for (auto [library, training] : {std::pair(reference.get(), &expected), std::pair(ops.get(), &actual)}) {
        library->measure_update(training->steps);
        library->update(training->steps);
      }
      for (std::size_t k = 0; k < expected.squares.size(); ++k)
        EXPECT_NEAR(actual.squares[k], expected.squares[k], 1e-6 * expected.squares[k]) << k;
      for (std::size_t t = 0; t < tensors; ++t)
        for (std::size_t i = 0; i < expected.weights[t].size(); ++i)
          ASSERT_NEAR(actual.weights[t][i], expected.weights[t][i], 1e-5) << t << ' ' << i;
      EXPECT_NE(actual.weights, Training(rule).weights);
    }
  }
}

/// Without gradients, moments shrink until they are zero, and are never subnormal on the way, where they would remain.
TEST(Updates, LeaveNoSubnormalMoments) {
  for (const auto& ops : libraries()) {
    for (const UpdateRule rule : rules) {
      SCOPED_TRACE(std::string(ops->name()) + ", " + std::to_string(static_cast<int>(rule)));
      constexpr float least = std::numeric_limits<float>::min();
      Training training(rule);
      for (UpdateStep& step : training.steps) step.weight_decay = 0;
      const auto fill = [](PerTensor& all, float value) {
        for (std::vector<float>& values : all) std::fill(values.begin(), values.end(), value);
      };
      fill(training.gradients, 0);
      fill(training.first, -1.5F * least);
      fill(training.second, 1.03F * least);
      std::array<bool, 3> seen{};  // zeros among first moments, among second moments, and moments that are not zero
      for (int update = 0; update < 8; ++update) {
        ops->measure_update(training.steps);
        ops->update(training.steps);
        for (std::size_t t = 0; t < tensors; ++t) {
          for (std::size_t i = 0; i < training.first[t].size(); ++i) {
            const float first = training.first[t][i];
            const float second = training.second[t][i];
            ASSERT_NE(std::fpclassify(first), FP_SUBNORMAL) << t << ' ' << i << ": " << first;
            ASSERT_NE(std::fpclassify(second), FP_SUBNORMAL) << t << ' ' << i << ": " << second;
            seen[0] |= first == 0;
            seen[1] |= second == 0;
            seen[2] |= first != 0 && second != 0;
          }
        }
      }
      EXPECT_TRUE(seen[0]);
      EXPECT_EQ(seen[1], rule == UpdateRule::adamw || rule == UpdateRule::lamb) << "sgd and lars have one moment";
      EXPECT_TRUE(seen[2]);
    }
  }
}

}  // namespace
}  // namespace lockstep::ops::test
