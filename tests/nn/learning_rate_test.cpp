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
  const LearningRateSchedule schedule{.peak = 1, .decay = Decay::step, .warmup_steps = 10};
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
  const LearningRateSchedule schedule{.peak = 1, .decay = Decay::cosine, .warmup_steps = 9};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0, 100), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4, 100), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9, 100), 1);
  EXPECT_LT(learning_rate(schedule, 10, 100), 1);
}

/// A longer run starts like a short one.
TEST(LearningRateSchedule, WarmUpDoesNotDependOnTheLengthOfTheRun) {
  const LearningRateSchedule schedule{.peak = 1, .decay = Decay::cosine, .warmup_steps = 10};
  for (int step = 0; step <= 10; ++step) {
    EXPECT_EQ(learning_rate(schedule, step, 50), learning_rate(schedule, step, 5000)) << step;
  }
}

TEST(LearningRateSchedule, WarmUpInEpochsIsOfWholeSteps) {
  EXPECT_EQ(warmup_steps(0, 94), 0);
  EXPECT_EQ(warmup_steps(0.15, 94), 14);
  EXPECT_EQ(warmup_steps(0.29, 100), 29);
  EXPECT_EQ(warmup_steps(2, 94), 188);
}

TEST(LearningRateSchedule, IsPutIntoWords) {
  EXPECT_EQ(to_text({.peak = 0.05, .decay = Decay::cosine, .warmup_steps = 14}, 282),
            "0.05 after a linear warm-up over 14 steps, then cosine decay to 0 at step 282");
  EXPECT_EQ(to_text({.peak = 0.5, .decay = Decay::step}, 80), "0.5, divided by 10 at 1/2 and at 3/4 of 80 steps");
  EXPECT_EQ(to_text({.peak = 0.25}, 80), "0.25, constant");
  EXPECT_EQ(to_text({.peak = 0.25, .warmup_steps = 1}, 80), "0.25 after a linear warm-up over 1 step, constant");
}

TEST(LearningRateSchedule, RefusesWhatHasNoMeaning) {
  EXPECT_THROW((void)learning_rate({}, -1, 10), Error);
  EXPECT_THROW((void)learning_rate({}, 0, 0), Error);
  EXPECT_THROW((void)learning_rate({.warmup_steps = 10}, 0, 10), Error);
  EXPECT_THROW((void)learning_rate({.warmup_steps = -1}, 0, 10), Error);
}

}  // namespace
}  // namespace lockstep::nn
