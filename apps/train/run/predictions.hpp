// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/train/run/run.hpp"
#include "lockstep/trainer/metric.hpp"
#include "workloads/picture_task.hpp"

namespace lockstep::train {

/// Keeps what a model says about the samples of this rank. It has no values.
class Predictions final : public trainer::Metric {
 public:
  struct Sample {
    std::int64_t index = 0;
    std::unique_ptr<workloads::Finding> finding;
  };

  /// Called with the predictions of this rank when an evaluation has ended.
  using Show = std::function<void(const std::vector<Sample>&)>;

  /// @param stride  only samples whose index is a multiple of it are kept
  Predictions(workloads::Find find, std::int64_t stride) : find_(std::move(find)), stride_(stride) {}

  /// Calls this when an evaluation has ended.
  void show(Show show) { show_ = std::move(show); }

  void reset() override { samples_.clear(); }
  void add(const nn::Prediction& prediction, const data::Batch& batch) override;
  void reduce(Communicator& /*communicator*/) override {
    if (show_) show_(samples_);
  }
  [[nodiscard]] std::vector<observe::MetricValue> values() const override { return {}; }
  [[nodiscard]] const std::vector<Sample>& samples() const { return samples_; }

 private:
  workloads::Find find_;
  std::int64_t stride_;
  Show show_;
  std::vector<Sample> samples_;
};

/// Adds what keeps predictions to a trainer. @return it, which the trainer owns
/// @throws Error{unsupported} on every rank for a model without findings about pictures
Predictions& add_predictions(const RunContext& run, trainer::Trainer& trainer, std::int64_t stride = 1);

/// Lets a trainer on the user's pictures send the console of rank 0 a sheet with some of the test set after each
/// evaluation, with what the model takes them for, if there are event files to show it.
void show_predictions(const RunContext& run, trainer::Trainer& trainer);

/// Writes predictions.jsonl, with an object for each picture in the order of the paths, and each picture with the
/// finding drawn on it, as PNG; where findings are boxes, also predictions.json in COCO's form, and with --save-txt
/// files of labels. Rank 0 writes the objects, and each rank the files of its own pictures. Collective.
/// @return a line that says where, on rank 0
/// @throws Error{io} on every rank if a file cannot be written
std::string write_predictions(const RunContext& run, const Predictions& predictions);

}  // namespace lockstep::train
