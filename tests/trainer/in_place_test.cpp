// SPDX-License-Identifier: Apache-2.0
// A run that goes on from the memory of its ranks when some of them are gone ends as an undisturbed run, bit for bit,
// and reports the same. The ranks are threads, of which one throws.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "support/errors.hpp"
#include "trainer/replica/replica.hpp"
#include "trainer/small_data.hpp"
#include "trainer/whole_state.hpp"

namespace lockstep::trainer {
namespace {

nn::Graph normalized(const nn::DataSpec& data) {
  nn::Graph graph("normalized");
  graph.input(data.at("images"));
  graph.add("conv", nn::Convolution{.out_channels = 4, .padding = 1, .bias = false});
  graph.add("norm", nn::BatchNorm{});
  graph.add("fc", nn::Linear{.out_features = data.classes});
  nn::classify(graph, data);
  return graph;
}

/// Three steps an epoch.
TrainerOptions six_epochs(int shards, bool synchronized) {
  return {.epochs = 6,
          .batch = {24},
          .schedule = {.peak = 0.05, .decay = nn::Decay::cosine},
          .optimizer = {.rule = ops::UpdateRule::adamw},
          .sync_batch_norm = synchronized,
          .step = {.shards = shards, .ema = 0.75},
          .eval_interval = 2};
}

using Row = std::tuple<std::int64_t, double, std::vector<observe::MetricValue>>;
using testing_support::WholeState;

enum class When { after_step, in_evaluation, after_evaluation };
/// The rank that ends, and when.
struct Death {
  int rank = 0;
  std::int64_t step = 0;  ///< of the run; the evaluation is the one after it
  When when = When::after_step;
};

/// Throws where its rank is to end, and keeps what the trainer remembered one step before.
class Mortal final : public Listener {
 public:
  explicit Mortal(std::optional<Death> death) : death_(death) {}
  void progress(const observe::ProgressEvent& /*event*/) override {
    end_at(When::after_step);
    before = std::exchange(latest_, trainer->memory());
  }
  void evaluation(const observe::EvaluationEvent& /*event*/) override { end_at(When::in_evaluation); }
  void step(const observe::StepEvent& /*event*/) override {}
  void epoch(const observe::EpochEvent& event) override {
    if (event.metrics[0].value) rows.emplace_back(event.epoch, event.train_loss, event.metrics);
    end_at(When::after_evaluation);
  }

  Trainer* trainer = nullptr;
  std::optional<RunMemory> before;
  std::vector<Row> rows;

 private:
  void end_at(When when) const {
    if (death_ && death_->when == when && death_->step == trainer->state().global_step)
      throw Error(ErrorCode::transport, "this rank ends");
  }
  std::optional<Death> death_;
  std::optional<RunMemory> latest_;
};

struct Life {
  std::vector<RunMemory> memories;  // of the ranks that are left
  std::vector<Row> rows;            // of rank 0
  std::optional<WholeState> end;
};

/// Trains on threads as ranks, from the memories if there are any, to the end or until a rank ends.
/// @param late  the rank that goes on with what it remembered one step earlier; −1: none
/// @param moves  whether rank 0 takes all shards but one of each other rank, before the first step
Life live(int ranks, const TrainerOptions& options, const std::vector<RunMemory>& memories, std::optional<Death> death,
          int late = -1, bool moves = false) {
  const data::DatasetPair data = testing_support::small_digits(72, 20, 8);
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(ranks, {.wait = {.spins_before_yield = 0}});
  std::vector<std::optional<RunMemory>> left(static_cast<std::size_t>(ranks));
  Life life;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      ProcessGroup& group = groups[index];
      const auto ops = ops::make_reference_ops();
      Mortal listener(death && death->rank == rank ? death : std::nullopt);
      Trainer trainer(group, *ops, normalized(nn::DataSpec::of_images(1, 8, 8, 10)), data, options, &listener);
      listener.trainer = &trainer;
      memories.empty() ? trainer.remember() : trainer.go_on_from(memories[index]);
      std::vector<int> uneven(static_cast<std::size_t>(ranks), 1);
      uneven[0] = options.step.shards - ranks + 1;
      if (moves) trainer.move_shards(LeafShares(uneven));
      try {
        trainer.run();
        const WholeState end = testing_support::whole_state(trainer.replica().store());
        if (rank == 0) life.end = end;
        group.close();
      } catch (const Error& error) {
        group.abort(error.what());
        if (!death || death->rank != rank) left[index] = rank == late ? *std::move(listener.before) : trainer.memory();
      }
      if (rank == 0) life.rows = listener.rows;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& memory : left)
    if (memory) life.memories.push_back(*std::move(memory));
  return life;
}

/// The first death comes within an epoch, when another rank has not completed that step; the second one is rank 0's, in
/// an evaluation; the third one comes after an evaluation, before the next step is completed.
void expect_bits_of_an_undisturbed_run(const TrainerOptions& options, bool moves = false) {
  const Life whole = live(2, options, {}, std::nullopt);
  ASSERT_TRUE(whole.end);
  Life life = live(4, options, {}, Death{.rank = 3, .step = 4}, 1, moves);
  std::vector<Row> rows = life.rows;
  const std::vector<std::pair<int, std::optional<Death>>> rest = {
      {3, Death{.rank = 0, .step = 6, .when = When::in_evaluation}},
      {2, Death{.rank = 1, .step = 12, .when = When::after_evaluation}},
      {1, std::nullopt}};
  for (const auto& [ranks, death] : rest) {
    ASSERT_FALSE(life.end);
    ASSERT_EQ(life.memories.size(), static_cast<std::size_t>(ranks));
    life = live(ranks, options, life.memories, death, -1, moves);
    rows.insert(rows.end(), life.rows.begin(), life.rows.end());
  }
  ASSERT_TRUE(life.end);
  EXPECT_EQ(rows, whole.rows);
  EXPECT_TRUE(*life.end == *whole.end);
}

TEST(InPlace, FewerRanksGoOnWithTheSameBits) { expect_bits_of_an_undisturbed_run(six_epochs(4, false)); }
TEST(InPlace, FewerRanksGoOnWithTheSameBitsUnderSynchronizedBatchNorm) {
  expect_bits_of_an_undisturbed_run(six_epochs(4, true));
}

TEST(InPlace, FewerRanksGoOnWithTheSameBitsAfterShardsHaveMoved) {
  expect_bits_of_an_undisturbed_run(six_epochs(8, false), true);
}

TEST(InPlace, WithoutShardsTheRunGoesOnToo) {
  const TrainerOptions options = six_epochs(0, false);
  const Life life = live(3, options, {}, Death{.rank = 1, .step = 4}, 0);
  ASSERT_EQ(life.memories.size(), 2U);
  const Life end = live(2, options, life.memories, std::nullopt);
  ASSERT_TRUE(end.end);
  EXPECT_EQ(end.rows.size(), 3U);
}

TEST(InPlace, AShardedOptimizerIsRefused) {
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
  const auto ops = ops::make_reference_ops();
  TrainerOptions options = six_epochs(0, false);
  options.zero = true;
  Trainer trainer(groups[0], *ops, normalized(nn::DataSpec::of_images(1, 8, 8, 10)),
                  testing_support::small_digits(72, 20, 8), options);
  EXPECT_EQ(code_of([&] { trainer.remember(); }), ErrorCode::unsupported);
  groups[0].close();
}

}  // namespace
}  // namespace lockstep::trainer
