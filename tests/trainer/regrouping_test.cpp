// SPDX-License-Identifier: Apache-2.0
// Who trains changes at step boundaries, 4 → 3 → 2 → 4 ranks; the loss goes on as if nothing had happened.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
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

/// Trains one stage on the first `ranks` ranks, from `snapshot`, which it overwrites. Appends the losses.
void run_stage(const World& world, int ranks, int steps, bool resume, const data::DatasetPair& data, Snapshot& snapshot,
               std::vector<double>& losses) {
  auto group =
      world.group().split(world.rank().value < ranks ? std::optional<int>(0) : std::nullopt, world.rank().value);
  if (!group) return;
  const auto ops = ops::make_reference_ops();
  const nn::Network network = nn::make_model("lenet", {1, 1, 12, 12}, 10);
  ProcessGroup members(*std::move(group), {.wait = {.spins_before_yield = 0}});
  {
    Trainer trainer(members, *ops, network, data,
                    {.precision = DType::float64,
                     .epochs = 3,
                     .batch = {60},
                     .schedule = {.peak = 0.05, .decay = nn::Decay::cosine},
                     .sgd = {.momentum = 0.9}});
    // Whether there is something to go on from is rank 0's to know; a rank that comes back has only an old snapshot.
    if (resume) trainer.restore(snapshot);
    for (int step = 0; step < steps; ++step) {
      EXPECT_EQ(trainer.train_steps(1), 1);
      losses.push_back(trainer.last_loss());
    }
    snapshot = trainer.snapshot();
  }
  members.close();
}

TEST(GroupOfRanks, ChangesAtStepBoundariesWithoutATrace) {
  World world;
  ASSERT_EQ(world.size(), 4);
  // 7 steps an epoch, so that stages begin and end inside epochs and one crosses from an epoch to the next.
  const data::DatasetPair data = testing_support::small_digits(400, 50, 12);
  std::vector<double> undisturbed;
  Snapshot scratch;
  run_stage(world, 4, 4 * steps_per_stage, false, data, scratch, undisturbed);

  std::vector<double> losses;
  Snapshot snapshot;
  bool resume = false;
  for (const int ranks : {4, 3, 2, 4}) {
    run_stage(world, ranks, steps_per_stage, resume, data, snapshot, losses);
    resume = true;
  }
  if (world.rank().value == 0) {
    ASSERT_EQ(losses.size(), undisturbed.size());
    for (std::size_t step = 0; step < losses.size(); ++step) {
      EXPECT_LE(std::abs(losses[step] - undisturbed[step]), 1e-12 * undisturbed[step]) << "step " << step;
    }
  }
  world.close();
}

TEST(GroupOfRanks, RefusesASnapshotOfAnotherModel) {
  World world;
  const auto ops = ops::make_reference_ops();
  const data::DatasetPair data = testing_support::small_digits(100, 50, 12);
  ProcessGroup members(world, {.wait = {.spins_before_yield = 0}});
  {
    Trainer trainer(members, *ops, nn::make_model("lenet", {1, 1, 12, 12}, 10), data,
                    {.precision = DType::float64, .batch = {20}});
    Snapshot snapshot = trainer.snapshot();
    snapshot.weights.pop_back();
    EXPECT_THROW(trainer.replica().restore(snapshot), Error);
  }
  members.close();
  world.close();
}

}  // namespace
}  // namespace lockstep::trainer
