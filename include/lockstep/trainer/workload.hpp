// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/trainer/metric.hpp"

namespace lockstep::workloads {
struct PictureTask;
}

namespace lockstep::trainer {

/// What models are trained for, such as classification: how they are evaluated, and what becomes of their predictions.
/// A model names its workload (`nn::ModelEntry::workload`).
struct Workload {
  using Metrics = std::vector<std::unique_ptr<Metric>>;

  std::string name;
  std::string about;  ///< what its models give, for people: "a class for each image"
  /// Makes the metrics of evaluations. The graph outlives them. The class names, by label, are empty if classes have
  /// numbers only.
  std::function<Metrics(const nn::Graph&, const std::vector<TensorSpec>&, const std::vector<std::string>& class_names)>
      metrics;
  /// How users' pictures become its batches, and its predictions become findings; null: not at all.
  std::shared_ptr<const workloads::PictureTask> pictures = {};
};

}  // namespace lockstep::trainer
