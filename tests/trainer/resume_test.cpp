// SPDX-License-Identifier: Apache-2.0
// Whatever must survive a restart is in a checkpoint: a run that is rebuilt from one after each step, on other numbers
// of ranks, ends as an undisturbed run, bit for bit, and reports the same.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "data/idx_files.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/data/augment.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/nn/optimizer.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "state/checkpoint_folder.hpp"
#include "state/verify.hpp"
#include "trainer/small_data.hpp"
#include "trainer/thread_ranks.hpp"

namespace lockstep::trainer {
namespace {

nn::Graph with_batch_norm(const nn::DataSpec& data) {
  nn::Graph graph("with batch norm");
  graph.input(data.at("images"));
  graph.add("conv", nn::Convolution{.out_channels = 8, .padding = 1, .bias = false});
  graph.add("norm", nn::BatchNorm{});
  graph.add("relu", nn::Relu{});
  graph.add("pool", nn::MaxPool{});
  graph.add("fc", nn::Linear{.out_features = data.classes});
  nn::classify(graph, data);
  return graph;
}

/// How a run updates its weights.
struct Updates {
  ops::UpdateRule rule = ops::UpdateRule::sgd;
  bool sums_steps = false;  ///< whether an update has several steps, which may be of two epochs
};

/// Three steps an epoch, the last of which has fewer samples than the others.
TrainerOptions options_of_run(bool zero, const Updates& updates) {
  TrainerOptions options{.epochs = 6,
                         .steps = 17,
                         .batch = {24},
                         .schedule = {.peak = 0.05, .decay = nn::Decay::cosine},
                         .optimizer = {.rule = updates.rule, .momentum = 0.9},
                         .step = {.shards = 6, .ema = 0.75, .loss_scale = {.initial = 0x1p130, .interval = 4}},
                         .zero = zero,
                         .eval_interval = 2};
  if (!updates.sums_steps) return options;
  options.nominal_batch = 50;
  options.schedule = {.peak = 0.01,
                      .decay = nn::Decay::polynomial,
                      .warmup_steps = 6,
                      .final_fraction = 0.01,
                      .steps_per_epoch = 3,
                      .warmup_start = 0,
                      .warmup_bias_rate = 0.1,
                      .warmup_momentum = 0.5};
  options.optimizer.bias_rate = true;
  options.step.ema_ramp = 3;
  options.step.ema_statistics = true;
  options.step.times_samples = true;
  return options;
}

/// The end of an epoch that was evaluated.
using EvaluatedEpoch = std::tuple<std::int64_t, double, std::vector<observe::MetricValue>>;

/// Records the evaluated epochs and, if it is to, asks for the end of the run after each step.
class LifeRecorder final : public Listener {
 public:
  explicit LifeRecorder(bool stops) : stops_(stops) {}
  void progress(const observe::ProgressEvent& /*event*/) override {
    if (stops_) stop = 1;
  }
  void step(const observe::StepEvent& /*event*/) override {}
  void epoch(const observe::EpochEvent& event) override {
    if (event.metrics[0].value) rows.emplace_back(event.epoch, event.train_loss, event.metrics);
  }

  std::atomic<int> stop = 0;
  std::vector<EvaluatedEpoch> rows;

 private:
  bool stops_;
};

/// Gives one rank as many of six shards as possible.
LeafShares uneven(int ranks, std::size_t most) {
  std::vector<int> counts(static_cast<std::size_t>(ranks), 1);
  counts[most] += 6 - ranks;
  return LeafShares(counts);
}

/// Continues from the folder's checkpoint, if there is one, on threads as ranks, up to the end or to a stop.
/// @return why it stopped; 0: it has ended
int live_once(int ranks, bool zero, const Updates& updates, bool stops, const std::filesystem::path& folder,
              std::vector<EvaluatedEpoch>& rows) {
  data::DatasetPair data = testing_support::small_digits(61, 20, 12);
  data.train = data::augmented(data.train, {.crop = true, .flip = true});
  std::atomic<int> stopped_by = 0;
  testing_support::on_thread_ranks(ranks, [&](ProcessGroup& group, int rank) {
    const auto ops = ops::make_reference_ops();
    LifeRecorder recorder(stops && rank == 0);
    Trainer trainer(group, *ops, with_batch_norm(nn::DataSpec::of_images(1, 12, 12, 10)), data,
                    options_of_run(zero, updates), &recorder);
    trainer.stop_on(recorder.stop);
    trainer.save_checkpoints({.folder = folder, .epochs = 0, .keep = 1});
    // Where shards are does not matter, neither to a checkpoint that is read nor to the next one.
    if (stops && ranks > 1) trainer.move_shards(uneven(ranks, 1));
    (void)trainer.resume("auto", folder);
    if (stops && ranks > 1) trainer.move_shards(uneven(ranks, 0));
    const RunState& run = trainer.run();
    if (rank == 0) {
      stopped_by = run.stopped_by;
      rows.insert(rows.end(), recorder.rows.begin(), recorder.rows.end());
    }
  });
  return stopped_by;
}

class Resume : public testing::TestWithParam<Updates> {};

TEST_P(Resume, ARunThatIsRebuiltAgainAndAgainEndsAsAnUndisturbedOne) {
  const data::TemporaryDirectory directory;
  const std::filesystem::path whole = directory.path() / "whole";
  const std::filesystem::path parts = directory.path() / "parts";
  std::vector<EvaluatedEpoch> whole_rows;
  ASSERT_EQ(live_once(2, false, GetParam(), false, whole, whole_rows), 0);
  ASSERT_EQ(whole_rows.size(), 3U) << "after epochs 2 and 4, and at the end";

  std::vector<EvaluatedEpoch> rows;
  int lives = 0;
  int stopped_by = 0;
  do {
    ++lives;
    stopped_by = live_once(1 + lives % 3, lives % 2 == 0, GetParam(), true, parts, rows);
    ASSERT_LE(lives, 40);
  } while (stopped_by != 0);
  EXPECT_GE(lives, 9) << "each takes two steps at most";
  EXPECT_EQ(rows, whole_rows);
  const auto last = [](const std::filesystem::path& folder) { return state::checkpoints_of(folder) / "last"; };
  const state::StateFile expected = state::verify_checkpoint(last(whole), state::Check::checksums);
  const state::StateFile found = state::verify_checkpoint(last(parts), state::Check::checksums);
  EXPECT_EQ(expected.integer("run", "global_step"), 17);
  EXPECT_GT(expected.integer("run", "skipped"), 0);
  EXPECT_LT(expected.integer("run", "skipped"), 10);
  EXPECT_EQ(found.sections, expected.sections);
  EXPECT_EQ(found.files, expected.files) << "the checksums of all tensors";
}

/// The checksums are right, as if the run had written it so.
TEST(ResumedPosition, ThatDoesNotFitTheDataSetOrTheCheckpointIsRefused) {
  const data::TemporaryDirectory directory;
  const std::filesystem::path folder = directory.path() / "run";
  std::vector<EvaluatedEpoch> rows;
  ASSERT_EQ(live_once(1, false, Updates{}, false, folder, rows), 0);
  const std::filesystem::path last = state::checkpoints_of(folder) / "last";
  const state::StateFile good = state::verify_checkpoint(last, state::Check::checksums);
  ASSERT_EQ(good.integer("run", "epoch"), 6);
  ASSERT_EQ(good.integer("run", "step"), 2);
  for (const auto& [name, value] : {std::pair("epoch", 5),
                                    {"epoch", 0},
                                    {"step", 5},
                                    {"step", -1},
                                    {"step", 1},
                                    {"global_step", 16},
                                    {"skipped", 18},
                                    {"epoch_samples", -1}}) {
    state::StateFile changed = good;
    changed.sections["run"][name] = std::int64_t{value};
    data::write_plain(last / "state.json", changed.text());
    try {
      (void)live_once(2, false, Updates{}, false, folder, rows);
      ADD_FAILURE() << name << ' ' << value << " was taken";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("is out of range"), std::string::npos) << error.message();
      EXPECT_TRUE(error.is_on_every_rank());
    }
  }
}

/// Takes a step on data of this fingerprint and saves it, behind the folder's last checkpoint if there is one.
/// @return why it cannot go on from that; empty if it can
std::string step_on(const std::string& fingerprint, const std::string& older, const std::filesystem::path& folder) {
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
  const auto ops = ops::make_reference_ops();
  TrainerOptions options = options_of_run(false, Updates{});
  options.eval_interval = 0;
  options.data_fingerprint = fingerprint;
  options.older_data_fingerprint = older;
  std::string why_not;
  {
    Trainer trainer(groups[0], *ops, with_batch_norm(nn::DataSpec::of_images(1, 12, 12, 10)),
                    testing_support::small_digits(61, 20, 12), options);
    trainer.save_checkpoints({.folder = folder, .epochs = 0, .keep = 1});
    try {
      (void)trainer.resume("auto", folder);
      (void)trainer.train_steps(1);
      trainer.save();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      why_not = error.message();
    }
  }
  groups[0].close();
  return why_not;
}

TEST(ResumedData, MayHaveTheFingerprintOfAnOlderVersion) {
  const data::TemporaryDirectory directory;
  const std::filesystem::path folder = directory.path() / "run";
  EXPECT_EQ(step_on("1234", "", folder), "");
  EXPECT_NE(step_on("abcd", "", folder).find("data set 1234, this run abcd"), std::string::npos);
  EXPECT_NE(step_on("abcd", "5678", folder).find("data set 1234, this run abcd"), std::string::npos);
  EXPECT_EQ(step_on("abcd", "1234", folder), "");
  EXPECT_EQ(step_on("abcd", "", folder), "") << "the next checkpoint has the new one";
}

INSTANTIATE_TEST_SUITE_P(
    , Resume, testing::Values(Updates{}, Updates{.rule = ops::UpdateRule::adamw}, Updates{.sums_steps = true}),
    [](const auto& updates) {
      return std::string(nn::name(updates.param.rule)) + (updates.param.sums_steps ? "OverSeveralSteps" : "");
    });

}  // namespace
}  // namespace lockstep::trainer
