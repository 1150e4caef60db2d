// SPDX-License-Identifier: Apache-2.0
// Which evaluation is the best, and when the lack of a better one ends a run.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "data/idx_files.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "state/checkpoint_folder.hpp"
#include "trainer/small_data.hpp"

namespace lockstep::trainer {
namespace {

nn::Graph small_classifier() {
  const nn::DataSpec data = nn::DataSpec::of_images(1, 12, 12, 10);
  nn::Graph graph("small");
  graph.input(data.at("images"));
  graph.add("fc", nn::Linear{.out_features = data.classes});
  nn::classify(graph, data);
  return graph;
}

/// Takes on the values of a list, one for each evaluation.
class ScriptedMetric final : public Metric {
 public:
  ScriptedMetric(std::vector<double> script, bool higher_is_better, std::size_t done)
      : script_(std::move(script)), higher_is_better_(higher_is_better), evaluations_(done) {}
  void reset() override { ++evaluations_; }
  void add(const nn::Prediction& /*prediction*/, const data::Batch& /*batch*/) override {}
  void reduce(Communicator& /*communicator*/) override {}
  [[nodiscard]] std::vector<observe::MetricValue> values() const override {
    const double value = evaluations_ == 0 ? 0 : script_.at(evaluations_ - 1);
    return {{.name = "script", .value = value, .higher_is_better = higher_is_better_}};
  }

 private:
  std::vector<double> script_;
  bool higher_is_better_;
  std::size_t evaluations_;
};

struct Script {
  std::vector<double> values;
  bool higher_is_better = true;
  std::int64_t patience = 0;
  std::size_t evaluations_done = 0;  // before it is resumed
  std::int64_t steps = 0;            // 0: all of nine epochs
  std::string best_metric = "script";
  std::string usual_best_metric = {};
};

struct Ended {
  RunState run;
  bool early = false;
};

/// Trains for up to nine epochs of two steps on threads as ranks, from the folder's last checkpoint if there is one.
/// @param scripts  of each rank
std::vector<Ended> run_scripts(const std::vector<Script>& scripts, const std::filesystem::path& folder) {
  const data::DatasetPair data = testing_support::small_digits(40, 10, 12);
  std::vector<ProcessGroup> groups =
      ProcessGroup::of_threads(static_cast<int>(scripts.size()), {.wait = {.spins_before_yield = 0}});
  std::vector<Ended> ended(scripts.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < scripts.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const Script& script = scripts[rank];
      const auto ops = ops::make_reference_ops();
      {
        Trainer trainer(groups[rank], *ops, small_classifier(), data,
                        {.epochs = 9,
                         .steps = script.steps,
                         .batch = {20},
                         .best_metric = script.best_metric,
                         .usual_best_metric = script.usual_best_metric,
                         .early_stop = {.metric = "script", .patience = script.patience}});
        trainer.add_metric(
            std::make_unique<ScriptedMetric>(script.values, script.higher_is_better, script.evaluations_done));
        trainer.save_checkpoints({.folder = folder, .keep = 20});
        (void)trainer.resume("auto", folder);
        ended[rank].run = trainer.run();
        ended[rank].early = trainer.stops_early();
      }
      groups[rank].close();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ended;
}

/// Returns the step that the link `best` of a run names.
std::int64_t best_step(const std::filesystem::path& folder) {
  const auto best = state::linked_checkpoint(folder, "best");
  return best ? best->step : -1;
}

TEST(EarlyStop, EndsTheRunAfterAsManyEvaluationsWithoutABetterOne) {
  const std::vector<double> rising{1, 3, 2, 3, 2, 4, 1, 1, 1};
  const auto ended_on = [&](const Script& script) {
    const data::TemporaryDirectory directory;
    const Ended ended = run_scripts({script}, directory.path()).front();
    EXPECT_EQ(ended.run.stopped_by, 0);
    EXPECT_EQ(ended.run.global_step, 2 * ended.run.epoch);
    EXPECT_EQ(best_step(directory.path()), 2 * (ended.run.epoch - ended.run.evaluations_since_best.back()));
    const auto last = state::linked_checkpoint(directory.path(), "last");
    EXPECT_EQ(last->step, ended.run.global_step) << "the end is saved";
    return std::pair(ended.run.epoch, ended.early);
  };
  EXPECT_EQ(ended_on({.values = rising, .patience = 2}), std::pair(std::int64_t{4}, true)) << "equal is not better";
  EXPECT_EQ(ended_on({.values = rising, .patience = 3}), std::pair(std::int64_t{5}, true));
  EXPECT_EQ(ended_on({.values = rising, .patience = 4}), std::pair(std::int64_t{9}, false)) << "three of four";
  EXPECT_EQ(ended_on({.values = rising}), std::pair(std::int64_t{9}, false));
  EXPECT_EQ(ended_on({.values = rising, .higher_is_better = false, .patience = 2}), std::pair(std::int64_t{3}, true));
}

TEST(BestCheckpoint, IsThatOfTheUsualMetricWhereNoneIsNamed) {
  const std::vector<double> second{1, 9, 2, 3, 3, 3, 3, 3, 3};
  const auto best_with = [&](const std::string& named, const std::string& usual) {
    const data::TemporaryDirectory directory;
    (void)run_scripts({{.values = second, .best_metric = named, .usual_best_metric = usual}}, directory.path());
    return best_step(directory.path());
  };
  EXPECT_EQ(best_with("", "script"), 4);
  const std::int64_t of_loss = best_with("loss", "script");
  EXPECT_NE(of_loss, 4) << "the loss is still falling";
  EXPECT_EQ(best_with("", "fitness"), of_loss) << "the model has no such metric";
}

TEST(EarlyStop, SurvivesAResumeOnOtherRanks) {
  const std::vector<double> script{1, 3, 2, 1, 0, 0, 0, 0, 0};
  for (const std::size_t ranks : {1, 2}) {
    for (const std::int64_t epochs : {1, 2, 3, 4}) {
      const data::TemporaryDirectory directory;
      const Script first{.values = script, .patience = 3, .steps = 2 * epochs};
      EXPECT_FALSE(run_scripts({first}, directory.path()).front().early) << "all of its steps are done";
      const Script then{.values = script, .patience = 3, .evaluations_done = static_cast<std::size_t>(epochs)};
      const Ended ended = run_scripts(std::vector<Script>(ranks, then), directory.path()).back();
      EXPECT_EQ(ended.run.epoch, 5) << "resumed after " << epochs << " epochs";
      EXPECT_TRUE(ended.early);
      EXPECT_EQ(observe::value_of(ended.run.best, "script"), 3);
      EXPECT_EQ(best_step(directory.path()), 4);
    }
  }
}

TEST(EarlyStop, OfAnEndedRunCanBeLiftedByAResume) {
  const data::TemporaryDirectory directory;
  const std::vector<double> script{1, 0, 0, 5, 0, 0, 0, 0, 0};
  EXPECT_EQ(run_scripts({{.values = script, .patience = 2}}, directory.path()).front().run.epoch, 3);
  EXPECT_EQ(run_scripts({{.values = script, .patience = 2, .evaluations_done = 3}}, directory.path()).front().run.epoch,
            3)
      << "it has ended";
  const Ended ended = run_scripts({{.values = script, .patience = 4, .evaluations_done = 3}}, directory.path()).front();
  EXPECT_EQ(ended.run.epoch, 8);
  EXPECT_EQ(best_step(directory.path()), 8) << "the fourth epoch";
}

/// Metrics of ranks may differ by a rounding; rank 0's count.
TEST(EarlyStop, IsDecidedByRankZeroForAll) {
  const data::TemporaryDirectory directory;
  const std::vector<double> falling{5, 4, 3, 2, 1, 1, 1, 1, 1};
  const std::vector<double> rising{1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (const Ended& ended :
       run_scripts({{.values = falling, .patience = 2}, {.values = rising, .patience = 2}}, directory.path())) {
    EXPECT_EQ(ended.run.epoch, 3);
    EXPECT_TRUE(ended.early);
  }
  EXPECT_EQ(best_step(directory.path()), 2);
}

TEST(EarlyStop, RefusesAMetricThatIsNotThere) {
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
  const auto ops = ops::make_reference_ops();
  const data::DatasetPair data = testing_support::small_digits(40, 10, 12);
  const auto refusal = [&](const TrainerOptions& options) {
    Trainer trainer(groups[0], *ops, small_classifier(), data, options);
    try {
      (void)trainer.run();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_TRUE(error.is_on_every_rank());
      return error.message();
    }
    return std::string("none");
  };
  const char* known = "There are loss, accuracy";
  for (const std::string& message :
       {refusal({.batch = {20}, .metrics = accuracy_metrics, .best_metric = "acuracy"}),
        refusal({.batch = {20}, .metrics = accuracy_metrics, .early_stop = {.metric = "acuracy", .patience = 1}})}) {
    EXPECT_NE(message.find("there is no metric 'acuracy'; did you mean 'accuracy'?"), std::string::npos) << message;
    EXPECT_NE(message.find(known), std::string::npos) << message;
  }
  EXPECT_NE(refusal({.batch = {20}, .early_stop = {.patience = 1}}).find("name of a metric"), std::string::npos);
  EXPECT_NE(refusal({.batch = {20}, .early_stop = {.metric = "loss", .patience = -1}}).find("patience of -1"),
            std::string::npos);
  groups[0].close();
}

}  // namespace
}  // namespace lockstep::trainer
