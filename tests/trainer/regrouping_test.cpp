// SPDX-License-Identifier: Apache-2.0
// The number of ranks changes at step boundaries, 4 → 3 → 2 → 4; the loss continues as if it had not changed.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/platform/mpi/world.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/small_data.hpp"

namespace lockstep::trainer {
namespace {

constexpr int steps_per_stage = 4;

struct Stage {
  int ranks;
  int steps;
  bool resume;
  bool zero = false;
};

/// Trains one stage on the first ranks, from `snapshot`, which it overwrites. Appends the losses.
void run_stage(const World& world, const Stage& stage, const data::DatasetPair& data, Snapshot& snapshot,
               std::vector<double>& losses) {
  auto group =
      world.group().split(world.rank().value < stage.ranks ? std::optional<int>(0) : std::nullopt, world.rank().value);
  if (!group) return;
  const auto ops = ops::make_reference_ops();
  const nn::Graph network = nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 10));
  ProcessGroup members(*std::move(group), {.wait = {.spins_before_yield = 0}});
  {
    Trainer trainer(members, *ops, network, data,
                    {.precision = DType::float64,
                     .epochs = 3,
                     .batch = {60},
                     .schedule = {.peak = 0.05, .decay = nn::Decay::cosine},
                     .optimizer = {.momentum = 0.9},
                     .ema = 0.75,
                     .zero = stage.zero});
    // Only rank 0 has to have the current snapshot; a rank that returns has an old one.
    if (stage.resume) trainer.restore(snapshot);
    for (int step = 0; step < stage.steps; ++step) {
      EXPECT_EQ(trainer.train_steps(1), 1);
      losses.push_back(trainer.state().last_loss);
    }
    snapshot = trainer.snapshot();
    trainer.restore(snapshot);
    const Snapshot again = trainer.snapshot();
    EXPECT_EQ(again.weights, snapshot.weights);
    EXPECT_EQ(again.optimizer_state, snapshot.optimizer_state);
    EXPECT_EQ(again.averages, snapshot.averages);
  }
  members.close();
}

void expect_close(const std::vector<double>& losses, const std::vector<double>& expected) {
  ASSERT_EQ(losses.size(), expected.size());
  for (std::size_t step = 0; step < losses.size(); ++step)
    EXPECT_LE(std::abs(losses[step] - expected[step]), 1e-12 * expected[step]) << "step " << step;
}

TEST(GroupOfRanks, ChangesAtStepBoundariesWithoutATrace) {
  World world;
  ASSERT_EQ(world.size(), 4);
  // An epoch has 7 steps, so stages begin and end inside epochs, and one crosses from an epoch to the next.
  const data::DatasetPair data = testing_support::small_digits(400, 50, 12);
  std::vector<double> undisturbed;
  Snapshot scratch;
  run_stage(world, {4, 4 * steps_per_stage, false}, data, scratch, undisturbed);

  std::vector<double> losses;
  Snapshot snapshot;
  bool resume = false;
  for (const int ranks : {4, 3, 2, 4}) {
    run_stage(world, {ranks, steps_per_stage, resume}, data, snapshot, losses);
    resume = true;
  }
  if (world.rank().value == 0) expect_close(losses, undisturbed);
  world.close();
}

TEST(GroupOfRanks, GoesOnWithAndWithoutOwnedPartsInTurn) {
  World world;
  const data::DatasetPair data = testing_support::small_digits(400, 50, 12);
  std::vector<double> undisturbed;
  Snapshot whole;
  run_stage(world, {4, 4 * steps_per_stage, false}, data, whole, undisturbed);
  std::vector<double> losses;
  Snapshot snapshot;
  bool resume = false;
  bool zero = true;
  for (const int ranks : {4, 3, 2, 4}) {
    run_stage(world, {ranks, steps_per_stage, resume, zero}, data, snapshot, losses);
    resume = true;
    zero = !zero || ranks == 3;
  }
  if (world.rank().value == 0) expect_close(losses, undisturbed);
  EXPECT_EQ(snapshot.optimizer_state.size(), whole.optimizer_state.size());
  EXPECT_EQ(snapshot.averages.size(), whole.averages.size());
  EXPECT_EQ(snapshot.settings, whole.settings);
  world.close();
}

/// A single rank owns all parts, and computes the same bits.
TEST(GroupOfRanks, SnapshotsAreTheSameBytesWithAndWithoutOwnedParts) {
  World world;
  const data::DatasetPair data = testing_support::small_digits(100, 50, 12);
  std::vector<double> losses;
  Snapshot without;
  Snapshot with;
  run_stage(world, {1, 1, false, false}, data, without, losses);
  run_stage(world, {1, 1, false, true}, data, with, losses);
  const auto expect_equal = [&] {
    if (world.rank().value > 0) return;
    EXPECT_EQ(with.settings, without.settings);
    EXPECT_EQ(with.weights, without.weights);
    EXPECT_EQ(with.optimizer_state, without.optimizer_state);
    EXPECT_EQ(with.averages, without.averages);
  };
  expect_equal();
  // Several ranks save the same state that they restored, with and without owned parts.
  for (const bool zero : {true, false}) run_stage(world, {4, 0, true, zero}, data, without, losses);
  expect_equal();
  world.close();
}

const TrainerOptions of_20{.precision = DType::float64, .batch = {20}};

/// Restores the snapshot on all ranks. @return the error of every rank; the trainer's state does not change
Error refusal(Trainer& trainer, const Snapshot& snapshot) {
  const Snapshot before = trainer.snapshot();
  std::optional<Error> error;
  try {
    trainer.restore(snapshot);
  } catch (const Error& thrown) {
    error = thrown;
  }
  const Snapshot after = trainer.snapshot();
  EXPECT_EQ(after.weights, before.weights);
  EXPECT_EQ(after.optimizer_state, before.optimizer_state);
  EXPECT_EQ(after.run.global_step, before.run.global_step);
  if (!error) return {ErrorCode::unsupported, "nothing was thrown"};
  EXPECT_EQ(error->code(), ErrorCode::mismatch);
  EXPECT_TRUE(error->is_on_every_rank());
  return *error;
}

TEST(GroupOfRanks, RefusesASnapshotThatDoesNotSuitAnyOfThem) {
  World world;
  const auto ops = ops::make_reference_ops();
  const data::DatasetPair data = testing_support::small_digits(100, 50, 12);
  ProcessGroup members(world, {.wait = {.spins_before_yield = 0}});
  {
    Trainer trainer(members, *ops, nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 10)), data, of_20);
    trainer.train_steps(2);
    const Snapshot good = trainer.snapshot();
    const auto of_rank_zero = [&](const Snapshot& bad) { return world.rank() == Rank{0} ? bad : Snapshot{}; };

    Snapshot shorter = good;
    shorter.weights.pop_back();
    const std::string bytes = std::to_string(good.weights.size());
    EXPECT_EQ(refusal(trainer, of_rank_zero(shorter)).message(),
              "the ranks named here cannot go on from rank 0's checkpoint, which has bytes of weights " +
                  std::to_string(good.weights.size() - 1) + ", this run " + bytes + ". Nothing was changed");

    Snapshot other_batch = good;
    for (Snapshot::Setting& setting : other_batch.settings)
      if (setting.name == "batch") setting.value = "30";
    const Error of_batch = refusal(trainer, of_rank_zero(other_batch));
    EXPECT_NE(of_batch.message().find("batch 30, this run 20"), std::string::npos) << of_batch.message();
    EXPECT_EQ(of_batch.context().peers, (std::vector<int>{0, 1, 2, 3}));

    trainer.restore(of_rank_zero(good));
    EXPECT_EQ(trainer.snapshot().weights, good.weights);
  }
  members.close();
  world.close();
}

TEST(GroupOfRanks, NamesTheRankThatTheSnapshotDoesNotSuit) {
  World world;
  const auto ops = ops::make_reference_ops();
  const data::DatasetPair data = testing_support::small_digits(100, 50, 12);
  ProcessGroup members(world, {.wait = {.spins_before_yield = 0}});
  {
    TrainerOptions options = of_20;
    if (world.rank() == Rank{2}) options.seed = 7;
    Trainer trainer(members, *ops, nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 10)), data, options);
    const Error error = refusal(trainer, trainer.snapshot());
    EXPECT_EQ(error.context().peers, std::vector<int>{2});
    EXPECT_NE(error.message().find("seed 1, this run 7"), std::string::npos) << error.message();
  }
  members.close();
  world.close();
}

}  // namespace
}  // namespace lockstep::trainer
