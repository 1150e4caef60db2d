// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/learning_rate.hpp"

#include <gtest/gtest.h>

#include <vector>

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

/// As numpy.interp(step, [0, 100], [from, to]), where `to` falls from epoch to epoch, over the warm-up, too.
TEST(StepRates, OfYolov5WarmUpRatesOfBiasesAndMomentum) {
  const LearningRateSchedule schedule{.peak = 0.01,
                                      .decay = Decay::polynomial,
                                      .warmup_steps = 100,
                                      .final_fraction = 0.01,
                                      .steps_per_epoch = 40,
                                      .warmup_start = 0,
                                      .warmup_bias_rate = 0.1,
                                      .warmup_momentum = 0.8};
  constexpr std::int64_t total = 400;
  EXPECT_EQ(step_rates(schedule, 0.937, 0, total), (StepRates{0, 0.1, 0.8}));
  const StepRates second_epoch = step_rates(schedule, 0.937, 50, total);
  EXPECT_DOUBLE_EQ(second_epoch.learning_rate, 0.01 * (0.9 * 0.99 + 0.01) / 2);
  EXPECT_DOUBLE_EQ(second_epoch.bias_learning_rate, (0.1 + 0.01 * (0.9 * 0.99 + 0.01)) / 2);
  EXPECT_DOUBLE_EQ(second_epoch.momentum, (0.8 + 0.937) / 2);
  const double third = 0.01 * (0.8 * 0.99 + 0.01);
  for (const std::int64_t step : {100, 119}) {
    EXPECT_DOUBLE_EQ(step_rates(schedule, 0.937, step, total).learning_rate, third) << step;
    EXPECT_DOUBLE_EQ(step_rates(schedule, 0.937, step, total).bias_learning_rate, third) << step;
    EXPECT_LT(step_rates(schedule, 0.937, step, total).momentum, 0) << "that of the optimizer";
  }
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 120, total), 0.01 * (0.7 * 0.99 + 0.01));
  EXPECT_DOUBLE_EQ(learning_rate(schedule, total - 1, total), 0.01 * (0.1 * 0.99 + 0.01));
}

TEST(StepRates, AWarmUpFromEpochToEpochMayBeLongerThanTheRun) {
  const LearningRateSchedule schedule{.peak = 1, .warmup_steps = 100, .steps_per_epoch = 5, .warmup_start = 0};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9, 10), 0.09);
  expect_error([] { (void)learning_rate({.peak = 1, .warmup_steps = 100}, 9, 10); }, ErrorCode::invalid_argument,
               {"must end within"});
}

TEST(StepRates, WithoutAWarmUpOfTheirOwnBiasesHaveTheRateOfAll) {
  const LearningRateSchedule schedule{.peak = 1, .decay = Decay::cosine, .warmup_steps = 4};
  for (const std::int64_t step : {0, 3, 4, 15}) {
    const double rate = learning_rate(schedule, step, 16);
    EXPECT_EQ(step_rates(schedule, 0.9, step, 16), (StepRates{rate, rate, -1})) << step;
  }
}

TEST(AccumulationSchedule, GrowsOverTheWarmUpAndIsAtLeastOne) {
  const AccumulationSchedule schedule{.nominal_batch = 64, .batch = 16, .warmup_steps = 100};
  std::vector<std::int64_t> steps;
  for (const std::int64_t step : {0, 16, 17, 50, 83, 84, 100, 1000}) steps.push_back(schedule.steps(step));
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 1, 2, 2, 3, 4, 4, 4})) << "1.48, 1.51, 2.5 to even, 3.49, 3.52";
  EXPECT_EQ(schedule.most_steps(), 4);
  EXPECT_EQ((AccumulationSchedule{.nominal_batch = 64, .batch = 200, .warmup_steps = 9}).most_steps(), 1);
  EXPECT_EQ((AccumulationSchedule{.nominal_batch = 64, .batch = 24}).steps(0), 3);
  EXPECT_EQ(AccumulationSchedule{}.steps(7), 1);
}

}  // namespace
}  // namespace lockstep::nn
