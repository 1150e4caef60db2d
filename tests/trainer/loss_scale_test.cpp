// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer/loss_scale.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/small_data.hpp"

namespace lockstep::trainer {
namespace {

TEST(LossScale, HalvesWhereSomethingIsNotFiniteAndDoublesAfterAWhile) {
  LossScale scale({.initial = 16, .interval = 3});
  EXPECT_EQ(scale.factor(), 16);
  scale.update(true);
  scale.update(true);
  scale.update(false);  // it also restarts the count
  EXPECT_EQ(scale.factor(), 8);
  for (int step = 0; step < 2; ++step) scale.update(true);
  EXPECT_EQ(scale.factor(), 8);
  scale.update(true);
  EXPECT_EQ(scale.factor(), 16);
  for (int step = 0; step < 9; ++step) scale.update(false);
  EXPECT_EQ(scale.factor(), 1);
  EXPECT_FALSE(scale.may_be_at_fault()) << "what is not finite at 1 is not so because of the scale";
}

TEST(LossScale, OfZeroIsNone) {
  LossScale scale({});
  for (const bool finite : {true, false}) {
    scale.update(finite);
    EXPECT_EQ(scale.factor(), 1);
  }
  EXPECT_FALSE(scale.may_be_at_fault());
}

TEST(LossScale, RefusesWhatCannotBe) {
  EXPECT_THROW(LossScale({.initial = -1}), Error);
  EXPECT_THROW(LossScale({.initial = 1, .interval = 0}), Error);
}

/// The result of a short run in float32.
struct Trained {
  Snapshot snapshot;
  Trainer::Result result;
};

Trained train(LossScaleOptions scale, std::int64_t steps) {
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
  const std::unique_ptr<ops::Ops> ops = ops::make_reference_ops();
  Trained trained;
  {
    Trainer trainer(groups[0], *ops, nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 10)),
                    testing_support::small_digits(100, 50, 12),
                    {.epochs = 4, .steps = steps, .batch = {20}, .loss_scale = scale});
    trained.result = trainer.run();
    trained.snapshot = trainer.snapshot();
  }
  groups[0].close();
  return trained;
}

TEST(LossScale, ThatOverflowsSkipsUpdatesUntilItFits) {
  constexpr double far_too_much = 0x1p134;
  const Trained run = train({.initial = far_too_much, .interval = 1000}, 12);
  EXPECT_GT(run.result.skipped, 0);
  EXPECT_LT(run.result.skipped, 12);
  EXPECT_EQ(run.result.steps, 12);
  double expected = far_too_much;
  for (std::int64_t i = 0; i < run.result.skipped; ++i) expected /= 2;
  EXPECT_EQ(run.snapshot.loss_scale, expected);
}

/// Skipped steps change nothing, so the other steps are those of a run without a scale.
TEST(LossScale, ChangesNoBitOfTheUpdatesThatAreMade) {
  const Trained plain = train({}, 6);
  const Trained scaled = train({.initial = 1024, .interval = 2}, 6);
  EXPECT_EQ(scaled.result.skipped, 0);
  EXPECT_EQ(scaled.snapshot.weights, plain.snapshot.weights);
  EXPECT_EQ(scaled.snapshot.loss_scale, 1024 * 8);
}

TEST(LossScale, IsPartOfASnapshot) {
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
  const std::unique_ptr<ops::Ops> ops = ops::make_reference_ops();
  const nn::Graph graph = nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 10));
  const data::DatasetPair data = testing_support::small_digits(100, 50, 12);
  const TrainerOptions options{.batch = {20}, .loss_scale = {.initial = 8, .interval = 4}};
  {
    Trainer first(groups[0], *ops, graph, data, options);
    for (int step = 0; step < 3; ++step) first.train_steps(1);
    const Snapshot snapshot = first.snapshot();
    EXPECT_EQ(snapshot.loss_scale, 8);
    EXPECT_EQ(snapshot.scaled_steps, 3);
    Trainer second(groups[0], *ops, graph, data, options);
    second.restore(snapshot);
    second.train_steps(1);
    EXPECT_EQ(second.snapshot().loss_scale, 16) << "the fourth step without trouble";
  }
  groups[0].close();
}

}  // namespace
}  // namespace lockstep::trainer
