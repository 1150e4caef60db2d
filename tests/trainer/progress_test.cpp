// SPDX-License-Identifier: Apache-2.0
// Tests the reports of a run, its learning rate, its evaluations, and how it is stopped.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/replica/replica.hpp"
#include "trainer/small_data.hpp"

namespace lockstep::trainer {
namespace {

class Recorder : public Listener {
 public:
  void progress(const observe::ProgressEvent& event) override {
    progresses.push_back(event);
    if (on_progress) on_progress();
  }
  void step(const observe::StepEvent& event) override { steps.push_back(event); }
  void evaluation(const observe::EvaluationEvent& event) override {
    evaluations.push_back(event);
    if (on_evaluation) on_evaluation();
  }
  void epoch(const observe::EpochEvent& event) override { epochs.push_back(event); }
  std::vector<observe::ProgressEvent> progresses;
  std::vector<observe::StepEvent> steps;
  std::vector<observe::EvaluationEvent> evaluations;
  std::vector<observe::EpochEvent> epochs;
  std::function<void()> on_progress;
  std::function<void()> on_evaluation;
};

struct Small {
  data::DatasetPair data = testing_support::small_digits(100, 50, 12);
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
  std::unique_ptr<ops::Ops> ops = ops::make_reference_ops();
  nn::Graph network = nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 10));
  ~Small() { groups[0].close(); }
};

/// The program does other work between its steps.
TEST(TrainSteps, ReportTheSpeedOfTheStepsAlone) {
  Small run;
  Recorder recorder;
  const auto begin = Clock::now();
  {
    Trainer trainer(run.groups[0], *run.ops, run.network, run.data, {.batch = {20}, .log_every = 2}, &recorder);
    for (int step = 0; step < 4; ++step) {
      trainer.train_steps(1);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  ASSERT_EQ(recorder.steps.size(), 2U);
  for (const observe::StepEvent& event : recorder.steps) {
    EXPECT_TRUE(std::isfinite(event.images_per_second));
    EXPECT_GT(event.learning_rate, 0);
    // Two steps take at most the time that remains without the pauses.
    EXPECT_GE(event.images_per_second, 2 * 20 / (seconds - 0.4)) << "in " << seconds << " s";
  }
}

/// The ninth step is the last of one run, where a cosine's rate is almost zero, but in the first half of the other.
TEST(TrainSteps, LetTheRateFallToTheEndOfTheSteps) {
  Small run;
  const auto largest_change = [&](std::int64_t steps) {
    Trainer trainer(run.groups[0], *run.ops, run.network, run.data,
                    {.precision = DType::float64,
                     .epochs = 4,
                     .steps = steps,
                     .batch = {20},
                     .schedule = {.peak = 0.05, .decay = nn::Decay::cosine}});
    for (int step = 0; step < 8; ++step) trainer.train_steps(1);
    const Buffer weights = trainer.replica().store().values();
    const std::span<const double> now(static_cast<const double*>(weights.data),
                                      static_cast<std::size_t>(weights.count.value));
    const std::vector<double> before(now.begin(), now.end());
    trainer.train_steps(1);
    double largest = 0;
    for (std::size_t i = 0; i < before.size(); ++i) largest = std::max(largest, std::abs(now[i] - before[i]));
    return largest;
  };
  EXPECT_LT(largest_change(9), largest_change(0) / 4);
}

TEST(Listener, HearsOfEveryStepAndOfEveryBatchOfAnEvaluation) {
  Small run;
  Recorder recorder;
  Trainer trainer(run.groups[0], *run.ops, run.network, run.data, {.epochs = 2, .batch = {30}, .log_every = 3},
                  &recorder);
  (void)trainer.run();
  EXPECT_EQ(recorder.steps.size(), 2U) << "of 4 steps of an epoch every third";
  ASSERT_EQ(recorder.progresses.size(), 8U);
  EXPECT_EQ(recorder.progresses.back().epoch, 2);
  EXPECT_EQ(recorder.progresses.back().step, 4);
  EXPECT_EQ(recorder.progresses.back().images, 200) << "100 images, the last step of an epoch with 10";
  for (std::size_t i = 1; i < 8; ++i) EXPECT_GT(recorder.progresses[i].seconds, recorder.progresses[i - 1].seconds);
  ASSERT_EQ(recorder.evaluations.size(), 4U) << "50 images in 2 batches, after each epoch";
  EXPECT_EQ(recorder.evaluations[3].epoch, 2);
  EXPECT_EQ(recorder.evaluations[3].batch, 2);
  EXPECT_EQ(recorder.evaluations[3].batches, 2);
}

std::string names_of(const std::vector<observe::MetricValue>& metrics) {
  std::string names;
  for (const observe::MetricValue& metric : metrics) names += metric.name + ' ';
  return names;
}

/// @return the epochs that were evaluated
std::vector<std::int64_t> evaluated_epochs(const TrainerOptions& options) {
  Small run;
  Recorder recorder;
  Trainer trainer(run.groups[0], *run.ops, run.network, run.data, options, &recorder);
  const RunState result = trainer.run();
  std::vector<std::int64_t> epochs;
  for (const observe::EpochEvent& event : recorder.epochs) {
    EXPECT_EQ(names_of(event.metrics), "loss ");
    if (event.metrics[0].value) epochs.push_back(event.epoch);
    for (const observe::MetricValue& metric : event.metrics)
      EXPECT_EQ(metric.value.has_value(), event.evaluation_seconds > 0);
  }
  EXPECT_EQ(observe::value_of(result.evaluation, "loss").has_value(), !epochs.empty());
  return epochs;
}

TEST(Evaluation, ComesAfterEveryNthEpochAndAtTheEnd) {
  using Epochs = std::vector<std::int64_t>;
  EXPECT_EQ(evaluated_epochs({.epochs = 3, .batch = {50}}), (Epochs{1, 2, 3}));
  EXPECT_EQ(evaluated_epochs({.epochs = 5, .batch = {50}, .eval_interval = 2}), (Epochs{2, 4, 5}));
  EXPECT_EQ(evaluated_epochs({.epochs = 2, .batch = {50}, .eval_interval = 9}), (Epochs{2}));
  EXPECT_EQ(evaluated_epochs({.epochs = 9, .steps = 5, .batch = {50}, .eval_interval = 2}), (Epochs{2, 3}))
      << "5 steps";
  EXPECT_EQ(evaluated_epochs({.epochs = 2, .batch = {50}, .eval_interval = 0}), Epochs{});
}

TEST(WarmUp, ThatIsAsLongAsTheRunIsRefused) {
  Small run;
  const auto train = [&](std::int64_t warmup) {
    Trainer(run.groups[0], *run.ops, run.network, run.data,
            {.epochs = 2, .batch = {50}, .schedule = {.warmup_steps = warmup}});
  };
  train(3);
  try {
    train(4);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(error.message().find("a warm-up over 4 steps must end within the run's 4 steps"), std::string::npos);
  }
}

/// Trains on threads as ranks. @param during  called on each rank after each step, with the rank and the number of
/// steps
std::vector<RunState> run_on(int ranks, std::vector<std::atomic<int>>& stops,
                             const std::function<void(int, std::size_t)>& during,
                             Clock::time_point end = Clock::time_point::max()) {
  const data::DatasetPair data = testing_support::small_digits(100, 50, 12);
  const nn::Graph network = nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 10));
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(ranks);
  std::vector<RunState> results(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto mine = static_cast<std::size_t>(rank);
      const auto ops = ops::make_reference_ops();
      Recorder recorder;
      recorder.on_progress = [&] { during(rank, recorder.progresses.size()); };
      recorder.on_evaluation = [&] { during(rank, 100 + recorder.evaluations.size()); };
      {
        Trainer trainer(groups[mine], *ops, network, data, {.epochs = 50, .batch = {10}}, &recorder);
        trainer.stop_on(stops[mine]);
        if (rank == 1) trainer.stop_at(end);
        results[mine] = trainer.run();
      }
      groups[mine].close();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

/// Ranks that disagreed about the last step would wait for each other forever.
TEST(Stop, OfOneRankEndsAllAfterTheSameStep) {
  std::vector<std::atomic<int>> stops(3);
  const auto results = run_on(3, stops, [&](int rank, std::size_t step) {
    if (rank == 1 && step == 13) stops[1] = SIGTERM;
    if (rank == 2 && step == 14) stops[2] = SIGINT;
  });
  for (const RunState& result : results) {
    EXPECT_EQ(result.stopped_by, SIGTERM);
    EXPECT_EQ(result.global_step, 14) << "the step in which the others hear of it is the last";
    EXPECT_EQ(result.epoch, 2);
  }
}

TEST(Stop, WithinAnEvaluationGivesItUp) {
  std::vector<std::atomic<int>> stops(2);
  const auto results = run_on(2, stops, [&](int rank, std::size_t event) {
    if (rank == 0 && event == 102) stops[0] = SIGINT;  // the second of 3 batches
  });
  for (const RunState& result : results) {
    EXPECT_EQ(result.stopped_by, SIGINT);
    EXPECT_EQ(result.global_step, 10);
    EXPECT_EQ(result.epoch, 1);
    EXPECT_FALSE(observe::value_of(result.evaluation, "loss")) << "over a part of the images";
  }
}

TEST(Stop, ByTheClockOfOneRankEndsAllAfterTheSameStep) {
  std::vector<std::atomic<int>> stops(3);
  const auto results = run_on(
      3, stops, [](int, std::size_t) {}, Clock::now() + std::chrono::milliseconds(300));
  for (const RunState& result : results) {
    EXPECT_EQ(result.stopped_by, stopped_by_time);
    EXPECT_EQ(result.global_step, results[0].global_step);
    EXPECT_GT(result.global_step, 0);
  }
}

TEST(Stop, ThatNobodyAsksForChangesNothing) {
  Small run;
  const std::atomic<int> stop = 0;
  Trainer trainer(run.groups[0], *run.ops, run.network, run.data, {.epochs = 1, .batch = {50}});
  trainer.stop_on(stop);
  const RunState result = trainer.run();
  EXPECT_EQ(result.stopped_by, 0);
  EXPECT_EQ(result.global_step, 2);
}

}  // namespace
}  // namespace lockstep::trainer
