// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
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

  /// @param output  index of the logits among the outputs of the model
  Predictions(std::size_t output, std::int64_t classes) : output_(output), classes_(classes) {}

  void reset() override { samples_.clear(); }
  void add(const nn::Prediction& prediction, const data::Batch& batch) override;
  void reduce(Communicator& /*communicator*/) override {}
  [[nodiscard]] std::vector<observe::MetricValue> values() const override { return {}; }
  [[nodiscard]] const std::vector<Sample>& samples() const { return samples_; }

 private:
  std::size_t output_;
  std::int64_t classes_;
  std::vector<Sample> samples_;
};

/// Adds what keeps predictions to a trainer of a classifier. @return it, which the trainer owns
/// @throws Error{unsupported} on every rank for another model
const Predictions& add_predictions(const RunContext& run, trainer::Trainer& trainer);

/// Writes predictions.jsonl, with an object for each picture in the order of the paths, and each picture with its label
/// drawn on it, as PNG. Rank 0 writes the objects, and each rank its own pictures. Collective.
/// @return a line that says where, on rank 0
/// @throws Error{io} on every rank if a file cannot be written
std::string write_predictions(const RunContext& run, const Predictions& predictions);

}  // namespace lockstep::train
