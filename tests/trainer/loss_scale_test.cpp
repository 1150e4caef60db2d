// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "data/idx_files.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/ops/step.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "ops/formulas/step_stages.hpp"
#include "support/errors.hpp"
#include "trainer/replica/replica.hpp"
#include "trainer/small_data.hpp"
#include "trainer/whole_state.hpp"

namespace lockstep::trainer {
namespace {

/// The gates of steps that have nothing but a loss scale.
class LossScaleGate {
 public:
  LossScaleGate(double loss_scale, double initial, std::int64_t interval) {
    block_ = {.options = {.loss_scale = {.initial = initial, .interval = interval}},
              .scalars = &scalars_,
              .state = &state_,
              .result = &result_,
              .update = &update_,
              .sums = sums_,
              .found = found_};
    block_.terms = 1;
    block_.weightings = &weighting_;
    scalars_ = {.samples = 1};
    state_ = {.loss_scale = loss_scale};
  }
  void update(bool finite) {
    sums_[3] = finite ? 0 : 1;
    compute(ops::StepStage::gate, block_);
    EXPECT_EQ(update_.go, finite);
    EXPECT_EQ(result_.state.loss_scale, state_.loss_scale);
  }
  [[nodiscard]] double loss_scale() const { return state_.loss_scale; }

 private:
  ops::LossWeighting weighting_;
  ops::StepScalars scalars_;
  ops::StepState state_;
  ops::StepResult result_;
  ops::UpdateScalars update_;
  // There is one loss term, with three sums: weight, loss, correct. Then come the numbers of gradients that are not
  // finite, of requests, and of bad values.
  double sums_[6] = {};
  double found_[1] = {};
  ops::StepBlock block_;
};

TEST(LossScale, HalvesWhereSomethingIsNotFiniteAndDoublesAfterAWhile) {
  LossScaleGate gate(16, 16, 3);
  gate.update(true);
  gate.update(true);
  gate.update(false);  // it also restarts the count
  EXPECT_EQ(gate.loss_scale(), 8);
  for (int step = 0; step < 2; ++step) gate.update(true);
  EXPECT_EQ(gate.loss_scale(), 8);
  gate.update(true);
  EXPECT_EQ(gate.loss_scale(), 16);
  for (int step = 0; step < 9; ++step) gate.update(false);
  EXPECT_EQ(gate.loss_scale(), 1);
}

TEST(LossScale, WithoutLossScalingStays) {
  LossScaleGate gate(4, 0, 2);
  for (const bool finite : {true, false}) {
    gate.update(finite);
    EXPECT_EQ(gate.loss_scale(), 4);
  }
}

TEST(LossScale, RefusesWhatCannotBe) {
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
  const std::unique_ptr<ops::Ops> ops = ops::make_reference_ops();
  const nn::Graph graph = nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 10));
  const data::DatasetPair data = testing_support::small_digits(20, 20, 12);
  for (const ops::LossScaleOptions wrong :
       {ops::LossScaleOptions{.initial = -1}, ops::LossScaleOptions{.initial = 1, .interval = 0}})
    EXPECT_EQ(
        code_of([&] { (void)Trainer(groups[0], *ops, graph, data, {.batch = {20}, .step = {.loss_scale = wrong}}); }),
        ErrorCode::invalid_argument);
  groups[0].close();
}

/// The result of a short run in float32.
struct Trained {
  std::vector<std::byte> weights;
  RunState result;
};

Trained train(ops::LossScaleOptions scale, std::int64_t steps) {
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
  const std::unique_ptr<ops::Ops> ops = ops::make_reference_ops();
  Trained trained;
  {
    Trainer trainer(groups[0], *ops, nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 10)),
                    testing_support::small_digits(100, 50, 12),
                    {.epochs = 4, .steps = steps, .batch = {20}, .step = {.loss_scale = scale}});
    trained.result = trainer.run();
    trained.weights = testing_support::whole_state(trainer.replica().store()).weights;
  }
  groups[0].close();
  return trained;
}

TEST(LossScale, ThatOverflowsSkipsUpdatesUntilItFits) {
  constexpr double far_too_much = 0x1p134;
  const Trained run = train({.initial = far_too_much, .interval = 1000}, 12);
  EXPECT_GT(run.result.skipped, 0);
  EXPECT_LT(run.result.skipped, 12);
  EXPECT_EQ(run.result.global_step, 12);
  double expected = far_too_much;
  for (std::int64_t i = 0; i < run.result.skipped; ++i) expected /= 2;
  EXPECT_EQ(run.result.loss_scale, expected);
}

/// Skipped steps change nothing, so the other steps are those of a run without a scale.
TEST(LossScale, ChangesNoBitOfTheUpdatesThatAreMade) {
  const Trained plain = train({}, 6);
  const Trained scaled = train({.initial = 1024, .interval = 2}, 6);
  EXPECT_EQ(scaled.result.skipped, 0);
  EXPECT_EQ(scaled.weights, plain.weights);
  EXPECT_EQ(scaled.result.loss_scale, 1024 * 8);
}

TEST(LossScale, IsPartOfACheckpoint) {
  const data::TemporaryDirectory directory;
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
  const std::unique_ptr<ops::Ops> ops = ops::make_reference_ops();
  const nn::Graph graph = nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 10));
  const data::DatasetPair data = testing_support::small_digits(100, 50, 12);
  const TrainerOptions options{.batch = {20}, .step = {.loss_scale = {.initial = 8, .interval = 4}}};
  {
    Trainer first(groups[0], *ops, graph, data, options);
    for (int step = 0; step < 3; ++step) first.train_steps(1);
    EXPECT_EQ(first.state().loss_scale, 8);
    EXPECT_EQ(first.state().scaled_steps, 3);
    first.save_checkpoints({.folder = directory.path()});
    first.save();
    Trainer second(groups[0], *ops, graph, data, options);
    second.resume("last", directory.path());
    second.train_steps(1);
    EXPECT_EQ(second.state().loss_scale, 16) << "the fourth step without trouble";
  }
  groups[0].close();
}

}  // namespace
}  // namespace lockstep::trainer
