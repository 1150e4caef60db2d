// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/trainer/options.hpp"

namespace lockstep::trainer {

/// What models are trained for, such as classification, and how they are evaluated. A model names its workload
/// (`nn::ModelEntry::workload`).
struct Workload {
  using Metrics = std::vector<std::unique_ptr<Metric>>;

  std::string name;
  std::string about;  ///< what its models give, for people: "a class for each image"
  /// Makes the metrics of evaluations. The graph outlives them. The class names, by label, are empty if classes have
  /// numbers only.
  std::function<Metrics(const nn::Graph&, const std::vector<TensorSpec>&, const std::vector<std::string>& class_names)>
      metrics;
  /// The metric whose best evaluation is the best checkpoint, of models that have it. Empty, and for other models:
  /// "accuracy", or "loss" for models without it.
  std::string best_metric = {};
};

}  // namespace lockstep::trainer
