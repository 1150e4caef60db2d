// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/learning_rate.hpp"

#include <gtest/gtest.h>

#include "lockstep/base/error.hpp"
#include "support/errors.hpp"

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

TEST(LearningRateSchedule, StepTakesItsMilestonesFromTheStartOfTheRun) {
  const LearningRateSchedule schedule{
      .peak = 8, .decay = Decay::step, .warmup_steps = 20, .milestones = {0.29, 0.3}, .gamma = 0.5};
  EXPECT_EQ(learning_rate(schedule, 28, 100), 8);
  EXPECT_EQ(learning_rate(schedule, 29, 100), 4);
  EXPECT_EQ(learning_rate(schedule, 30, 100), 2);
  EXPECT_EQ(learning_rate(schedule, 99, 100), 2);
}

TEST(LearningRateSchedule, PolynomialFallsToItsFinalRate) {
  const LearningRateSchedule schedule{.peak = 2, .decay = Decay::polynomial, .power = 2, .final_fraction = 0.25};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0, 8), 2);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4, 8), 0.5 + 1.5 / 4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 7, 8), 0.5 + 1.5 / 64);
}

/// PyTorch gives the last step the final rate even where the run is too short to rise.
TEST(LearningRateSchedule, OneCycleEndsAtItsFinalRateInARunOfAnyLength) {
  const LearningRateSchedule schedule{.peak = 1, .decay = Decay::one_cycle, .final_fraction = 0.125};
  for (std::int64_t steps = 1; steps < 50; ++steps) {
    EXPECT_DOUBLE_EQ(learning_rate(schedule, steps - 1, steps), 0.125) << steps;
    for (std::int64_t step = 0; step < steps; ++step) {
      EXPECT_GE(learning_rate(schedule, step, steps), 1 / 25.0) << step << " of " << steps;
      EXPECT_LE(learning_rate(schedule, step, steps), 1) << step << " of " << steps;
    }
  }
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
  EXPECT_EQ(to_text({.peak = 0.5, .decay = Decay::step}, 80), "0.5, multiplied by 0.1 at 0.5, 0.75 of 80 steps");
  EXPECT_EQ(to_text({.peak = 0.5, .decay = Decay::cosine, .final_fraction = 0.01}, 80),
            "0.5, then cosine decay to 0.005 at step 80");
  EXPECT_EQ(to_text({.peak = 0.5, .decay = Decay::polynomial}, 80), "0.5, then linear decay to 0 at step 80");
  EXPECT_EQ(to_text({.peak = 0.5, .decay = Decay::polynomial, .power = 0.9}, 80),
            "0.5, then polynomial decay of power 0.9 to 0 at step 80");
  EXPECT_EQ(to_text({.peak = 0.5, .decay = Decay::one_cycle, .final_fraction = one_cycle_final_fraction}, 80),
            "from 0.02 to 0.5 in 30 % of 80 steps, then cosine decay to 2e-06 at step 80");
  EXPECT_EQ(to_text({.peak = 0.25}, 80), "0.25, constant");
  EXPECT_EQ(to_text({.peak = 0.25, .warmup_steps = 1}, 80), "0.25 after a linear warm-up over 1 step, constant");
}

TEST(LearningRateSchedule, RefusesWhatHasNoMeaning) {
  EXPECT_EQ(code_of([&] { (void)learning_rate({}, -1, 10); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)learning_rate({}, 0, 0); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)learning_rate({.warmup_steps = 10}, 0, 10); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)learning_rate({.warmup_steps = -1}, 0, 10); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)learning_rate({.decay = Decay::one_cycle, .warmup_steps = 1}, 0, 10); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)learning_rate({.milestones = {0.5, 0.5}}, 0, 10); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)learning_rate({.milestones = {1}}, 0, 10); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)learning_rate({.gamma = 0}, 0, 10); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)learning_rate({.power = 0}, 0, 10); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)learning_rate({.final_fraction = 1.5}, 0, 10); }), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace lockstep::nn
