// SPDX-License-Identifier: Apache-2.0
// What a run that is taken step by step reports, and how its learning rate falls.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/small_data.hpp"

namespace lockstep::trainer {
namespace {

class Recorder : public Listener {
 public:
  void step(const observe::StepEvent& event) override { steps.push_back(event); }
  void epoch(const observe::EpochEvent& /*event*/) override {}
  std::vector<observe::StepEvent> steps;
};

struct Small {
  data::DatasetPair data = testing_support::small_digits(100, 50, 12);
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
  std::unique_ptr<ops::Ops> ops = ops::make_reference_ops();
  nn::Graph network = nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 10));
  ~Small() { groups[0].close(); }
};

/// A program that does other things between its steps.
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
    // Two steps in the time that is left beside the pauses, or less.
    EXPECT_GE(event.images_per_second, 2 * 20 / (seconds - 0.4)) << "in " << seconds << " s";
  }
}

/// The ninth step is the last of one run, where a cosine's rate is almost nothing, and comes before the middle of the
/// other.
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
    const Snapshot before = trainer.snapshot();
    trainer.train_steps(1);
    const Snapshot after = trainer.snapshot();
    double largest = 0;
    for (std::size_t i = 0; i < before.weights.size(); i += sizeof(double)) {
      double a = 0;
      double b = 0;
      std::memcpy(&a, before.weights.data() + i, sizeof a);
      std::memcpy(&b, after.weights.data() + i, sizeof b);
      largest = std::max(largest, std::abs(a - b));
    }
    return largest;
  };
  EXPECT_LT(largest_change(9), largest_change(0) / 4);
}

}  // namespace
}  // namespace lockstep::trainer
