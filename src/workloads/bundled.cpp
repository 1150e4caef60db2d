// SPDX-License-Identifier: Apache-2.0
#include "workloads/bundled.hpp"

#include "workloads/classification/classification.hpp"

namespace lockstep::workloads {
namespace {

using trainer::Workload;

/// Metrics that do not need the names of the classes.
template <typename Make>
auto without_names(Make* make) {
  return [make](const nn::Graph& graph, const std::vector<TensorSpec>& tensors,
                const std::vector<std::string>& /*class_names*/) { return make(graph, tensors); };
}

}  // namespace

std::vector<Workload> bundled() {
  return {{.name = "classification",
           .about = "a class for each image",
           .metrics = trainer::classification_metrics,
           .pictures = std::make_shared<PictureTask>(classification())},
          {.name = "detection",
           .about = "the box and class of each object",
           .metrics = without_names(trainer::accuracy_metrics)},
          {.name = "segmentation",
           .about = "a class for each pixel",
           .metrics = without_names(trainer::segmentation_metrics)},
          {.name = "text", .about = "the text in each image", .metrics = without_names(trainer::accuracy_metrics)},
          {.name = "other", .about = "whatever its loss judges", .metrics = without_names(trainer::loss_metrics)}};
}

}  // namespace lockstep::workloads
