// SPDX-License-Identifier: Apache-2.0
// Trains models with several kinds of targets on synthetic data.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/trainer/metric.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "workloads/small_sets.hpp"

namespace lockstep::workloads {
namespace {

struct Task {
  const char* model;
  data::DatasetPair (*draw)(const vision::SyntheticOptions&);
  std::int64_t steps;
  double part;  ///< the bound of the last losses, as a fraction of the first ones

  friend void PrintTo(const Task& task, std::ostream* out) { *out << task.model; }
};

class LossRecorder final : public trainer::Listener {
 public:
  void step(const observe::StepEvent& event) override { losses.push_back(event.loss); }
  void epoch(const observe::EpochEvent& /*event*/) override {}
  /// Returns the mean of ten steps' losses.
  [[nodiscard]] double mean_from(std::size_t first) const {
    double sum = 0;
    for (std::size_t i = first; i < first + 10; ++i) sum += losses.at(i) / 10;
    return sum;
  }
  std::vector<double> losses;
};

class Learning : public testing::TestWithParam<Task> {};

TEST_P(Learning, LossFallsOnDrawnData) {
  const Task& task = GetParam();
  const data::DatasetPair data = task.draw({.train = {640}, .test = {100}});
  const nn::Models models;
  const nn::Graph graph = models.make(task.model, {data.train->tensors(), data.train->classes()});
  const nn::Defaults& defaults = models.defaults(task.model);
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
  const auto ops = ops::make_onednn_ops(1);
  LossRecorder recorder;
  trainer::Trainer trainer(groups[0], *ops, graph, data,
                           {.epochs = 10,
                            .steps = task.steps,
                            .batch = {16},
                            .schedule = {.peak = defaults.learning_rate},
                            .optimizer = {.momentum = defaults.momentum},
                            .log_every = 1,
                            .metrics = trainer::accuracy_metrics},
                           &recorder);
  const trainer::RunState result = trainer.run();
  groups[0].close();
  const std::size_t steps = recorder.losses.size();
  ASSERT_EQ(steps, static_cast<std::size_t>(task.steps));
  const double ratio = recorder.mean_from(steps - 10) / recorder.mean_from(0);
  EXPECT_LT(ratio, task.part);
  RecordProperty("ratio", std::to_string(ratio));
  ASSERT_EQ(result.evaluation.size(), 2U) << "the classes are too few for the five most likely";
  EXPECT_TRUE(std::isfinite(observe::value_of(result.evaluation, "loss").value()));
  EXPECT_GE(observe::value_of(result.evaluation, "accuracy").value(), 0);
  EXPECT_LE(observe::value_of(result.evaluation, "accuracy").value(), 1);
}

INSTANTIATE_TEST_SUITE_P(Models, Learning,
                         testing::Values(Task{"detector", boxes_set, 60, 0.7}, Task{"unet", masks_set, 40, 0.85},
                                         Task{"crnn", words_set, 60, 0.6}),
                         [](const auto& task) { return std::string(task.param.model); });

}  // namespace
}  // namespace lockstep::workloads
