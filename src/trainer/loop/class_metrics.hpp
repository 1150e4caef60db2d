// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/trainer/metric.hpp"

namespace lockstep::trainer {

/// Where the predictions and the labels of a classifier are. There may be one for each sample, or for each pixel.
struct Classifier {
  ops::CrossEntropy loss;
  ops::Shape logits;
  std::size_t output = 0;  ///< index of the logits among the outputs
  std::size_t labels = 0;  ///< index of the labels among the tensors of a batch

  [[nodiscard]] std::int64_t positions() const { return logits.height * logits.width; }
};

const nn::Node& first_loss(const nn::Graph& graph);
/// Returns the classifier whose loss is the first one of the graph; nothing if that is another loss, or if its logits
/// are no output.
std::optional<Classifier> classifier_of(const nn::Graph& graph, const std::vector<TensorSpec>& tensors);

inline double fraction(double part, double whole) { return whole == 0 ? 0 : part / whole; }
/// Returns the index in the data set of the first sample of a part; 0 if it is not known.
inline std::int64_t first_of(const data::Batch& batch) { return batch.ids.empty() ? 0 : batch.ids.front(); }

/// Makes "loss", and "accuracy" if the first loss judges predictions.
std::unique_ptr<Metric> loss_metric(const nn::Graph& graph);
/// Whether there are so many classes that not all labels are among the first five.
bool has_top_five(const Classifier& classifier);
/// Makes "top5_accuracy".
std::unique_ptr<Metric> top_five_metric(const Classifier& classifier);

}  // namespace lockstep::trainer
