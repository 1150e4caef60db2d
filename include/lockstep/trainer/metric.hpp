// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/tensor_spec.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/observe/events.hpp"

namespace lockstep::trainer {

/// Turns predictions for a test set into numbers. A `Trainer` has those of `TrainerOptions::metrics`; derive from it
/// for metrics of your own, and hand them to Trainer::add_metric on every rank.
class Metric {
 public:
  virtual ~Metric() = default;
  /// Begins an evaluation: forgets what was added.
  virtual void reset() = 0;
  /// Adds the predictions for a batch of this rank, or with shards for one of them. It may have no samples.
  virtual void add(const nn::Prediction& prediction, const data::Batch& batch) = 0;
  /// Adds up what all ranks have added. Collective.
  virtual void reduce(Communicator& communicator) = 0;
  /// Returns the values over all ranks after reduce(), the same on every rank. The names do not depend on what was
  /// added; two metrics of a trainer must not share one.
  [[nodiscard]] virtual std::vector<observe::MetricValue> values() const = 0;
  /// The counts of each class over all ranks after reduce(), the same on every rank; null: it counts no classes.
  [[nodiscard]] virtual const observe::ClassCounts* classes() const { return nullptr; }
};

/// Makes "loss", the objective of the model.
/// @param graph    outlives the metrics
/// @param tensors  the tensors of a batch
std::vector<std::unique_ptr<Metric>> loss_metrics(const nn::Graph& graph, const std::vector<TensorSpec>& tensors);

/// Makes "loss", and "accuracy", the weight of the predictions that the first loss of the model counts as correct: of
/// labels, of values that are to be 0 or 1, or of whole sequences.
/// @param graph, tensors  as loss_metrics
/// @throws Error{invalid_argument} if the first loss counts no correct predictions, as a distance of numbers
std::vector<std::unique_ptr<Metric>> accuracy_metrics(const nn::Graph& graph, const std::vector<TensorSpec>& tensors);

/// Makes the metrics of a classifier: "loss", "accuracy", with more than 5 classes "top5_accuracy", and "macro_f1", the
/// mean F1 of all classes. Labels that the loss ignores are left out of all of them.
/// @param graph    its first loss is a cross-entropy with a label for each sample, whose logits are an output
///                 (`nn::classify`); outlives the metrics
/// @param tensors  the tensors of a batch
/// @param names    of the classes; empty: they have numbers only
/// @throws Error{invalid_argument} for another graph
std::vector<std::unique_ptr<Metric>> classification_metrics(const nn::Graph& graph,
                                                            const std::vector<TensorSpec>& tensors,
                                                            std::vector<std::string> names = {});

/// Makes the metrics of a model that gives a class to each pixel: "loss", "accuracy" of pixels, with more than 5
/// classes "top5_accuracy", and "miou", the mean over classes of intersection ÷ union of all pixels that have a label.
/// Classes that neither labels nor predictions have do not count.
/// @param graph    its first loss is a cross-entropy with a label for each pixel, whose logits are an output; outlives
///                 the metrics
/// @param tensors  the tensors of a batch
/// @throws Error{invalid_argument} for another graph
std::vector<std::unique_ptr<Metric>> segmentation_metrics(const nn::Graph& graph,
                                                          const std::vector<TensorSpec>& tensors,
                                                          std::vector<std::string> names);

}  // namespace lockstep::trainer
