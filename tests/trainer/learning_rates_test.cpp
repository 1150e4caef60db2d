// SPDX-License-Identifier: Apache-2.0
// The learning rates of a run follow from its options and its position alone: a run that resumes anywhere has those of
// an undisturbed one. With drop_last an epoch has whole batches only.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/idx_files.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/small_data.hpp"

namespace lockstep::trainer {
namespace {

using nn::Decay;

nn::Graph linear_classifier() {
  const nn::DataSpec data = nn::DataSpec::of_images(1, 12, 12, 10);
  nn::Graph graph("linear");
  graph.input(data.at("images"));
  graph.add("fc", nn::Linear{.out_features = data.classes});
  nn::classify(graph, data);
  return graph;
}

/// Rate and loss of each step.
class StepRecorder final : public Listener {
 public:
  void step(const observe::StepEvent& event) override { steps.emplace_back(event.learning_rate, event.loss); }
  void epoch(const observe::EpochEvent& /*event*/) override {}
  std::vector<std::pair<double, double>> steps;
};

/// What a trainer on one rank needs. 61 samples are five batches of 12 and one sample.
class LearningRates : public testing::TestWithParam<Decay> {
 protected:
  ~LearningRates() override { groups_[0].close(); }

  Trainer trainer_of(const TrainerOptions& options, Listener* listener = nullptr) {
    return {groups_[0], *ops_, graph_, data_, options, listener};
  }
  static TrainerOptions options_of_run() {
    return {.epochs = 4,
            .steps = 13,
            .batch = {12},
            .drop_last = true,
            .schedule = {.peak = 0.1,
                         .decay = GetParam(),
                         .warmup_steps = GetParam() == Decay::one_cycle ? 0 : 3,
                         .power = 2,
                         .final_fraction = 0.01},
            .log_every = 1};
  }

 private:
  data::DatasetPair data_ = testing_support::small_digits(61, 20, 12);
  std::vector<ProcessGroup> groups_ = ProcessGroup::of_threads(1);
  std::unique_ptr<ops::Ops> ops_ = ops::make_reference_ops();
  nn::Graph graph_ = linear_classifier();
};

TEST_P(LearningRates, SpanTheStepsOfTheRun) {
  StepRecorder recorder;
  const TrainerOptions options = options_of_run();
  Trainer trainer = trainer_of(options, &recorder);
  const RunState& run = trainer.run();
  ASSERT_EQ(recorder.steps.size(), 13U);
  for (std::size_t step = 0; step < 13; ++step) {
    EXPECT_EQ(recorder.steps[step].first, nn::learning_rate(options.schedule, static_cast<std::int64_t>(step), 13));
  }
  EXPECT_EQ(run.epoch, 3);
  EXPECT_EQ(run.step, 3) << "after two epochs of five steps";
  EXPECT_EQ(run.epoch_samples, 36);
}

TEST_P(LearningRates, OfAResumedRunAreThoseOfAnUndisturbedOne) {
  StepRecorder undisturbed;
  trainer_of(options_of_run(), &undisturbed).run();
  for (std::int64_t stop = 1; stop < 13; ++stop) {
    StepRecorder recorder;
    Trainer first = trainer_of(options_of_run(), &recorder);
    for (std::int64_t done = 0; done < stop;) done += first.train_steps(stop - done);
    Trainer second = trainer_of(options_of_run(), &recorder);
    const data::TemporaryDirectory directory;
    first.save_checkpoints({.folder = directory.path(), .epochs = 0});
    first.save();
    second.resume("last", directory.path());
    second.run();
    EXPECT_EQ(recorder.steps, undisturbed.steps) << "resumed after " << stop << " steps";
  }
}

TEST_P(LearningRates, WithAnotherDropLastThanTheCheckpointAreRefused) {
  TrainerOptions options = options_of_run();
  Trainer with = trainer_of(options);
  options.drop_last = false;
  Trainer without = trainer_of(options);
  const data::TemporaryDirectory directory;
  without.save_checkpoints({.folder = directory.path()});
  without.save();
  try {
    with.resume("last", directory.path());
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_NE(error.message().find("has drop-last no, this run yes"), std::string::npos) << error.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Trainer, LearningRates,
                         testing::Values(Decay::constant, Decay::step, Decay::cosine, Decay::polynomial,
                                         Decay::one_cycle),
                         [](const auto& decay) { return std::to_string(static_cast<int>(decay.param)); });

}  // namespace
}  // namespace lockstep::trainer
