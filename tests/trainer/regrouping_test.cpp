// SPDX-License-Identifier: Apache-2.0
// The number of ranks changes at step boundaries, 4 → 3 → 2 → 4; the loss continues as if it had not changed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/idx_files.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "state/checkpoint_folder.hpp"
#include "state/verify.hpp"
#include "trainer/replica/replica.hpp"
#include "trainer/small_data.hpp"
#include "trainer/whole_state.hpp"

namespace lockstep::trainer {
namespace {

constexpr int steps_per_stage = 4;

struct Stage {
  int ranks;
  int steps;
  bool resume;
  bool zero = false;
};

/// Trains one stage on the first ranks, from the folder's last checkpoint, and saves another. Appends the losses.
/// @param folder  of rank 0
void run_stage(const World& world, const Stage& stage, const data::DatasetPair& data,
               const std::filesystem::path& folder, std::vector<double>& losses) {
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
                     .step = {.ema = 0.75},
                     .zero = stage.zero});
    trainer.save_checkpoints({.folder = folder});
    if (stage.resume) trainer.resume("last", folder);
    for (int step = 0; step < stage.steps; ++step) {
      EXPECT_EQ(trainer.train_steps(1), 1);
      losses.push_back(trainer.state().last_loss);
    }
    trainer.save();
    const testing_support::WholeState before = testing_support::whole_state(trainer.replica().store());
    trainer.resume("last", folder);
    EXPECT_EQ(testing_support::whole_state(trainer.replica().store()), before);
  }
  members.close();
}

state::StateFile last_checkpoint(const std::filesystem::path& folder) {
  return state::verify_checkpoint(state::checkpoints_of(folder) / "last", state::Check::checksums);
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
  run_stage(world, {4, 4 * steps_per_stage, false}, data, data::TemporaryDirectory().path(), undisturbed);

  std::vector<double> losses;
  const data::TemporaryDirectory directory;
  bool resume = false;
  for (const int ranks : {4, 3, 2, 4}) {
    run_stage(world, {ranks, steps_per_stage, resume}, data, directory.path(), losses);
    resume = true;
  }
  if (world.rank().value == 0) expect_close(losses, undisturbed);
  world.close();
}

TEST(GroupOfRanks, GoesOnWithAndWithoutOwnedPartsInTurn) {
  World world;
  const data::DatasetPair data = testing_support::small_digits(400, 50, 12);
  std::vector<double> undisturbed;
  const data::TemporaryDirectory whole;
  run_stage(world, {4, 4 * steps_per_stage, false}, data, whole.path(), undisturbed);
  std::vector<double> losses;
  const data::TemporaryDirectory parts;
  bool resume = false;
  bool zero = true;
  for (const int ranks : {4, 3, 2, 4}) {
    run_stage(world, {ranks, steps_per_stage, resume, zero}, data, parts.path(), losses);
    resume = true;
    zero = !zero || ranks == 3;
  }
  if (world.rank().value == 0) {
    expect_close(losses, undisturbed);
    EXPECT_EQ(last_checkpoint(parts.path()).sections.at("settings"),
              last_checkpoint(whole.path()).sections.at("settings"));
  }
  world.close();
}

/// A single rank owns all parts, and computes the same bits.
TEST(GroupOfRanks, CheckpointsAreTheSameBytesWithAndWithoutOwnedParts) {
  World world;
  const data::DatasetPair data = testing_support::small_digits(100, 50, 12);
  std::vector<double> losses;
  const data::TemporaryDirectory without;
  const data::TemporaryDirectory with;
  run_stage(world, {1, 1, false, false}, data, without.path(), losses);
  run_stage(world, {1, 1, false, true}, data, with.path(), losses);
  const auto expect_equal = [&] {
    if (world.rank().value > 0) return;
    EXPECT_EQ(last_checkpoint(with.path()), last_checkpoint(without.path())) << "with the checksums of all tensors";
  };
  expect_equal();
  // Several ranks save the same state that they restored, with and without owned parts.
  for (const bool zero : {true, false}) run_stage(world, {4, 0, true, zero}, data, without.path(), losses);
  expect_equal();
  world.close();
}

const TrainerOptions of_20{.precision = DType::float64, .batch = {20}};

/// Resumes from the folder's last checkpoint. @return the error of every rank; the trainer's state does not change
Error refusal(Trainer& trainer, const std::filesystem::path& folder) {
  const testing_support::WholeState before = testing_support::whole_state(trainer.replica().store());
  const std::int64_t step = trainer.state().global_step;
  std::optional<Error> error;
  try {
    trainer.resume("last", folder);
  } catch (const Error& thrown) {
    error = thrown;
  }
  EXPECT_EQ(testing_support::whole_state(trainer.replica().store()), before);
  EXPECT_EQ(trainer.state().global_step, step);
  if (!error) return {ErrorCode::unsupported, "nothing was thrown"};
  EXPECT_TRUE(error->is_on_every_rank());
  return *error;
}

TEST(GroupOfRanks, RefusesACheckpointThatDoesNotSuitAnyOfThem) {
  World world;
  const auto ops = ops::make_reference_ops();
  const nn::Graph network = nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 10));
  const data::DatasetPair data = testing_support::small_digits(100, 50, 12);
  const data::TemporaryDirectory directory;
  ProcessGroup members(world, {.wait = {.spins_before_yield = 0}});
  {
    Trainer trainer(members, *ops, network, data, of_20);
    trainer.train_steps(2);
    trainer.save_checkpoints({.folder = directory.path()});
    trainer.save();
    const testing_support::WholeState saved = testing_support::whole_state(trainer.replica().store());

    TrainerOptions changed = of_20;
    changed.batch = {30};
    Trainer other_batch(members, *ops, network, data, changed);
    const Error of_batch = refusal(other_batch, directory.path());
    EXPECT_EQ(of_batch.code(), ErrorCode::mismatch);
    EXPECT_EQ(of_batch.message(),
              "this run cannot go on from rank 0's checkpoint, which has batch 20, this run 30. Nothing was changed; "
              "give the options of the run that saved it");
    EXPECT_EQ(of_batch.context().peers, (std::vector<int>{0, 1, 2, 3}));

    changed = of_20;
    changed.step.ema = 0.75;
    Trainer averages(members, *ops, network, data, changed);
    const Error of_averages = refusal(averages, directory.path());
    EXPECT_NE(of_averages.message().find("ema no, this run yes"), std::string::npos) << of_averages.message();

    Trainer again(members, *ops, network, data, of_20);
    again.resume("last", directory.path());
    EXPECT_EQ(testing_support::whole_state(again.replica().store()), saved);

    const std::filesystem::path weights = state::checkpoints_of(directory.path()) / "last" / "model.safetensors";
    if (world.rank() == 0) std::filesystem::resize_file(weights, std::filesystem::file_size(weights) - 1);
    Trainer damaged(members, *ops, network, data, of_20);
    const Error of_length = refusal(damaged, directory.path());
    EXPECT_EQ(of_length.code(), ErrorCode::corrupt);
    EXPECT_NE(of_length.message().find("model.safetensors"), std::string::npos) << of_length.message();
  }
  members.close();
  world.close();
}

TEST(GroupOfRanks, NamesTheRankThatTheCheckpointDoesNotSuit) {
  World world;
  const auto ops = ops::make_reference_ops();
  const data::DatasetPair data = testing_support::small_digits(100, 50, 12);
  const data::TemporaryDirectory directory;
  ProcessGroup members(world, {.wait = {.spins_before_yield = 0}});
  {
    TrainerOptions options = of_20;
    if (world.rank() == Rank{2}) options.seed = 7;
    Trainer trainer(members, *ops, nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 10)), data, options);
    trainer.save_checkpoints({.folder = directory.path()});
    trainer.save();
    const Error error = refusal(trainer, directory.path());
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_EQ(error.context().peers, std::vector<int>{2});
    EXPECT_NE(error.message().find("seed 1, this run 7"), std::string::npos) << error.message();
  }
  members.close();
  world.close();
}

}  // namespace
}  // namespace lockstep::trainer
