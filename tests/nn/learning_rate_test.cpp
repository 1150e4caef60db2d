// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/learning_rate.hpp"

#include <gtest/gtest.h>

#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

TEST(LearningRateSchedule, ConstantStaysAtItsPeak) {
  for (const std::int64_t step : {0, 50, 99, 1000}) EXPECT_EQ(learning_rate({.peak = 0.25}, step, 100), 0.25);
}

TEST(LearningRateSchedule, StepDividesByTenAtHalfAndThreeQuarters) {
  const LearningRateSchedule schedule{.peak = 1, .decay = Decay::step, .warmup_fraction = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 49, 100), 1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 50, 100), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 75, 100), 0.01);
}

TEST(LearningRateSchedule, CosineFallsFromPeakToNearlyZero) {
  const LearningRateSchedule schedule{.peak = 2, .decay = Decay::cosine};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0, 100), 2);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 50, 100), 1);
  EXPECT_LT(learning_rate(schedule, 99, 100), 0.001);
  for (int step = 1; step < 100; ++step) {
    EXPECT_LT(learning_rate(schedule, step, 100), learning_rate(schedule, step - 1, 100));
  }
  EXPECT_EQ(learning_rate(schedule, 500, 100), learning_rate(schedule, 99, 100));
}

TEST(LearningRateSchedule, WarmUpGrowsLinearlyUpToThePeak) {
  const LearningRateSchedule schedule{.peak = 1, .decay = Decay::cosine, .warmup_fraction = 0.09};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0, 100), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4, 100), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9, 100), 1);
  EXPECT_LT(learning_rate(schedule, 10, 100), 1);
}

TEST(LearningRateSchedule, RefusesWhatHasNoMeaning) {
  EXPECT_THROW((void)learning_rate({}, -1, 10), Error);
  EXPECT_THROW((void)learning_rate({}, 0, 0), Error);
  EXPECT_THROW((void)learning_rate({.warmup_fraction = 1}, 0, 10), Error);
  EXPECT_THROW((void)learning_rate({.warmup_fraction = -0.1}, 0, 10), Error);
}

}  // namespace
}  // namespace lockstep::nn
