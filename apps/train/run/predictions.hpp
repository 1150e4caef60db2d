// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/train/run/run.hpp"
#include "lockstep/trainer/metric.hpp"

namespace lockstep::train {

/// Keeps what a classifier says about the samples of this rank. It has no values.
class Predictions final : public trainer::Metric {
 public:
  /// A class, and the probability that the model gives it.
  struct Score {
    std::int32_t label = 0;
    double score = 0;
  };
  struct Sample {
    std::int64_t index = 0;
    std::vector<Score> scores;  ///< the likeliest classes, at most five
  };

  /// Called with the predictions of this rank when an evaluation has ended.
  using Show = std::function<void(const std::vector<Sample>&)>;

  /// @param output  index of the logits among the outputs of the model
  Predictions(std::size_t output, std::int64_t classes) : output_(output), classes_(classes) {}

  /// Keeps only each sample whose index is a multiple of `stride`, and calls this when an evaluation has ended.
  void show_each(std::int64_t stride, Show show) {
    stride_ = stride;
    show_ = std::move(show);
  }

  void reset() override { samples_.clear(); }
  void add(const nn::Prediction& prediction, const data::Batch& batch) override;
  void reduce(Communicator& /*communicator*/) override {
    if (show_) show_(samples_);
  }
  [[nodiscard]] std::vector<observe::MetricValue> values() const override { return {}; }
  [[nodiscard]] const std::vector<Sample>& samples() const { return samples_; }

 private:
  std::size_t output_;
  std::int64_t classes_;
  std::int64_t stride_ = 1;
  Show show_;
  std::vector<Sample> samples_;
};

/// Adds what keeps predictions to a trainer of a classifier. @return it, which the trainer owns
/// @throws Error{unsupported} on every rank for another model
Predictions& add_predictions(const RunContext& run, trainer::Trainer& trainer);

/// Lets a trainer of a classifier of the user's pictures send the console of rank 0 a sheet with some of the
/// test set after each evaluation, with what the model takes them for, if there are event files to show it.
void show_predictions(const RunContext& run, trainer::Trainer& trainer);

/// Writes predictions.jsonl, with an object for each picture in the order of the paths, and each picture with its label
/// drawn on it, as PNG. Rank 0 writes the objects, and each rank its own pictures. Collective.
/// @return a line that says where, on rank 0
/// @throws Error{io} on every rank if a file cannot be written
std::string write_predictions(const RunContext& run, const Predictions& predictions);

}  // namespace lockstep::train
