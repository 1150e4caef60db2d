// SPDX-License-Identifier: Apache-2.0
// Kernel choices belong to a run: ranks agree about them, and a run that continues from a checkpoint computes alike.
#include "lockstep/ops/kernel_choices.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "data/idx_files.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "state/checkpoint_folder.hpp"
#include "state/verify.hpp"
#include "support/verdict.hpp"
#include "trainer/replica/replica.hpp"
#include "trainer/small_data.hpp"
#include "trainer/whole_state.hpp"

namespace lockstep::trainer {
namespace {

constexpr std::int64_t batch = 24;

nn::Graph lenet() { return nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 10)); }

/// Returns algorithms other than the rule's for the second convolution, which has 32 channels of 6×6.
ops::KernelChoices other_than_the_rule() {
  const auto ops = ops::make_onednn_ops(1);
  const ops::Convolution convolution{.out_channels = 64, .padding = 1};
  const ops::Format plain = ops::Format::plain({6, 16, 6, 6}, DType::float32);
  const auto before = ops->make(ops::Convolution{.out_channels = 32, .padding = 1}, std::span(&plain, 1));
  const auto candidates = ops->candidates(convolution, std::span(&before->traits().output, 1));
  ops::KernelChoices choices;
  if (candidates.empty()) return choices;
  choices.set(ops::key_of(convolution, std::span(&before->traits().output, 1)), 6, candidates.at(1));
  return choices;
}

/// Runs each rank's part of a run on a thread. @return each rank's error, or nothing
std::vector<std::string> on_ranks(int ranks, const std::function<void(ProcessGroup&)>& body) {
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(ranks, {.wait = {.spins_before_yield = 0}});
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ProcessGroup& group = groups[static_cast<std::size_t>(rank)];
      try {
        body(group);
        group.close();
      } catch (const Error& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
        group.abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// How a stage computes.
struct How {
  ops::KernelChoices choices = {};
  bool exact = false;
  int shards = 4;
  int lanes = 1;
};

/// A run in a folder of its own, on any ranks in turn.
struct SavedRun {
  data::TemporaryDirectory folder;
  std::vector<std::byte> weights;  // after the last stage

  [[nodiscard]] std::filesystem::path last() const { return state::checkpoints_of(folder.path()) / "last"; }
  [[nodiscard]] std::string recorded_choices() const {
    return state::verify_checkpoint(last(), state::Check::checksums).words("kernels", "choices");
  }
};

/// Continues a run from its last checkpoint, if it has one, and saves another.
/// @param foreign_choices  number of choices of another library in the checkpoint
/// @return the error of rank 0, or nothing
std::string run_stage(int ranks, const How& how, int steps, SavedRun& run, std::size_t foreign_choices = 0) {
  const data::DatasetPair data = testing_support::small_digits(96, 10, 12);
  return on_ranks(ranks,
                  [&](ProcessGroup& group) {
                    const auto ops = ops::make_onednn_ops(1, how.exact);
                    ops->use(how.choices);
                    Trainer trainer(group, *ops, lenet(), data,
                                    {.epochs = 2,
                                     .batch = {batch},
                                     .optimizer = {.momentum = 0.9},
                                     .step = {.shards = how.shards, .lanes = how.lanes}});
                    trainer.save_checkpoints({.folder = run.folder.path()});
                    EXPECT_EQ(trainer.resume("auto", run.folder.path()).foreign_kernel_choices, foreign_choices);
                    (void)trainer.train_steps(steps);
                    trainer.save();
                    testing_support::WholeState end = testing_support::whole_state(trainer.replica().store());
                    if (group.rank() == Rank{0}) run.weights = std::move(end.weights);
                  })
      .front();
}

class KernelChoices : public testing::Test {
 protected:
  void SetUp() override {
    if (choices_.empty()) LOCKSTEP_SKIP(winograd) << "oneDNN has none for this processor";
  }
  const ops::KernelChoices choices_ = other_than_the_rule();
};

TEST_F(KernelChoices, MakeOtherBitsButTheSameOnAnyRanksAndLanes) {
  SavedRun rule;
  SavedRun alone;
  ASSERT_EQ(run_stage(1, {}, 3, rule), "");
  ASSERT_EQ(run_stage(1, {choices_}, 3, alone), "");
  EXPECT_NE(alone.weights, rule.weights) << "the other algorithm was not taken, or rounds alike";
  for (const auto& [ranks, lanes] : {std::pair(2, 1), {3, 1}, {1, 2}}) {
    SavedRun other;
    ASSERT_EQ(run_stage(ranks, {.choices = choices_, .lanes = lanes}, 3, other), "");
    EXPECT_EQ(other.weights, alone.weights) << ranks << " ranks, " << lanes << " lanes";
  }
}

TEST_F(KernelChoices, OfACheckpointAreThoseOfWhoGoesOn) {
  SavedRun undisturbed;
  ASSERT_EQ(run_stage(1, {choices_}, 3, undisturbed), "");
  for (const int ranks : {1, 2}) {
    SavedRun run;
    ASSERT_EQ(run_stage(1, {choices_}, 1, run), "");
    EXPECT_EQ(run.recorded_choices(), choices_.text());
    // The run that continues has measured nothing, and has two lanes, all of which must change.
    ASSERT_EQ(run_stage(ranks, {.lanes = 2}, 2, run), "");
    EXPECT_EQ(run.weights, undisturbed.weights) << ranks;
    EXPECT_EQ(run.recorded_choices(), choices_.text());
  }
}

TEST_F(KernelChoices, ThatACheckpointDoesNotHaveAreNotTaken) {
  SavedRun undisturbed;
  ASSERT_EQ(run_stage(1, {}, 3, undisturbed), "");
  SavedRun run;
  ASSERT_EQ(run_stage(1, {}, 1, run), "");
  ASSERT_EQ(run_stage(1, {choices_}, 2, run), "");
  EXPECT_EQ(run.weights, undisturbed.weights);
  EXPECT_EQ(run.recorded_choices(), "");
}

TEST_F(KernelChoices, ThatCannotBeHadAreRefusedWithTheReason) {
  SavedRun run;
  ASSERT_EQ(run_stage(1, {choices_}, 1, run), "");
  state::StateFile saved = state::verify_checkpoint(run.last(), state::Check::checksums);
  for (const int ranks : {1, 2}) {
    const std::string refusal = run_stage(ranks, {.exact = true}, 1, run);
    for (const char* part : {"cannot go on", "exact", "convolution of 32x6x6 to 64", "Nothing was changed"})
      EXPECT_NE(refusal.find(part), std::string::npos) << part << "\n" << refusal;
  }
  EXPECT_EQ(state::verify_checkpoint(run.last(), state::Check::checksums), saved) << "nothing was trained or saved";
  saved.sections["kernels"]["choices"] = "7 onednn direct sideways direct convolution";
  data::write_plain(run.last() / "state.json", saved.text());
  const std::string broken = run_stage(1, {}, 1, run);
  EXPECT_NE(broken.find("algorithm 'sideways'"), std::string::npos) << broken;
}

/// Another library's choices say nothing about this one's kernels.
TEST_F(KernelChoices, OfAnotherLibraryDoNotBindWhoGoesOn) {
  SavedRun undisturbed;
  ASSERT_EQ(run_stage(1, {choices_}, 3, undisturbed), "");
  SavedRun run;
  ASSERT_EQ(run_stage(1, {choices_}, 1, run), "");
  state::StateFile saved = state::verify_checkpoint(run.last(), state::Check::checksums);
  saved.sections["kernels"]["choices"] = "7 cudnn engine-1 engine-2 engine-3 convolution";
  data::write_plain(run.last() / "state.json", saved.text());
  ASSERT_EQ(run_stage(1, {choices_}, 2, run, 1), "");
  EXPECT_EQ(run.weights, undisturbed.weights) << "this run's own choices stay";
  EXPECT_EQ(run.recorded_choices(), choices_.text());
}

TEST_F(KernelChoices, HaveToBeEqualOnAllRanks) {
  const data::DatasetPair data = testing_support::small_digits(96, 10, 12);
  for (const int shards : {0, 4}) {
    const std::vector<std::string> errors = on_ranks(3, [&](ProcessGroup& group) {
      const auto ops = ops::make_onednn_ops(1);
      if (group.rank() == Rank{1}) ops->use(choices_);
      const Trainer trainer(group, *ops, lenet(), data, {.batch = {batch}, .step = {.shards = shards}});
    });
    for (const std::string& error : errors)
      EXPECT_NE(error.find("ranks use different kernels: rank 0 "), std::string::npos) << error;
    EXPECT_NE(errors[1].find(choices_.hash()), std::string::npos) << errors[1];
  }
}

}  // namespace
}  // namespace lockstep::trainer
