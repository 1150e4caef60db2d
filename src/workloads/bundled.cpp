// SPDX-License-Identifier: Apache-2.0
#include "workloads/bundled.hpp"

#include <algorithm>
#include <optional>

#include "lockstep/trainer/metric.hpp"
#include "workloads/classification/classification.hpp"
#include "workloads/detection/detection_task.hpp"
#include "workloads/segmentation/segmentation_task.hpp"
#include "workloads/text/text_task.hpp"

namespace lockstep::workloads {
namespace {

using trainer::Workload;

/// Metrics that do not need the names of the classes.
template <typename Make>
auto without_names(Make* make) {
  return [make](const nn::Graph& graph, const std::vector<TensorSpec>& tensors,
                const std::vector<std::string>& /*class_names*/) { return make(graph, tensors); };
}

/// A workload, and what it does with users' pictures; nothing where it has drawn data sets only.
struct Row {
  Workload workload;
  std::optional<PictureTask> pictures = {};
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {{.name = "classification", .about = "a class for each image", .metrics = trainer::classification_metrics},
       classification()},
      {{.name = "detection",
        .about = "the box and class of each object",
        .metrics = without_names(trainer::accuracy_metrics),
        .best_metric = "fitness"},
       detection()},
      {{.name = "segmentation",
        .about = "a class for each pixel",
        .metrics = trainer::segmentation_metrics,
        .best_metric = "miou"},
       segmentation()},
      {{.name = "text", .about = "the text in each image", .metrics = without_names(trainer::accuracy_metrics)},
       text()},
      {{.name = "other", .about = "whatever its loss judges", .metrics = without_names(trainer::loss_metrics)}}};
  return all;
}

}  // namespace

std::vector<Workload> bundled() {
  std::vector<Workload> workloads;
  for (const Row& row : rows()) workloads.push_back(row.workload);
  return workloads;
}

const PictureTask* picture_task(std::string_view workload) {
  const auto row = std::ranges::find(rows(), workload, [](const Row& one) { return one.workload.name; });
  return row == rows().end() || !row->pictures ? nullptr : &*row->pictures;
}

}  // namespace lockstep::workloads
