// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/detection_metrics.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "trainer/loop/gathered.hpp"
#include "workloads/detection/average_precision.hpp"
#include "workloads/detection/detection_reader.hpp"
#include "workloads/detection/judgment_records.hpp"
#include "workloads/detection/matching.hpp"

namespace lockstep::workloads {
namespace {

using observe::MetricValue;

/// The mean average precision and recalls of a class set, each nothing where no class has such boxes.
class MeanScores {
 public:
  explicit MeanScores(std::span<const ClassScores> classes) : classes_(classes) {}

  [[nodiscard]] std::optional<double> precision(std::size_t area) const {
    return mean_over_classes(classes_, [area](const ClassScores& one) { return mean_of(one.precision[area]); });
  }
  [[nodiscard]] std::optional<double> precision_at(std::size_t threshold) const {
    return mean_over_classes(
        classes_, [threshold](const ClassScores& one) { return value_at(one.precision[all_areas], threshold); });
  }
  [[nodiscard]] std::optional<double> recall(std::size_t area, std::size_t limit) const {
    return mean_over_classes(classes_, [=](const ClassScores& one) { return mean_of(one.recall[limit][area]); });
  }
  [[nodiscard]] std::optional<double> yolov5() const {
    return mean_over_classes(classes_, [](const ClassScores& one) { return mean_of(one.yolov5_precision); });
  }
  [[nodiscard]] std::optional<double> yolov5_at_50() const {
    return mean_over_classes(classes_, [](const ClassScores& one) { return value_at(one.yolov5_precision, at_50); });
  }

  static std::optional<double> value_at(const std::optional<ByThreshold>& values, std::size_t threshold) {
    return values ? std::optional((*values)[threshold]) : std::nullopt;
  }

 private:
  std::span<const ClassScores> classes_;
};

std::optional<double> fitness_of(const std::optional<double>& map50, const std::optional<double>& map) {
  return map50 && map ? std::optional(0.1 * *map50 + 0.9 * *map) : std::nullopt;
}

std::vector<MetricValue> values_of(std::span<const ClassScores> classes, const OperatingPoint& point) {
  std::vector<MetricValue> values;
  const auto add = [&](std::string name, const std::optional<double>& value) {
    const bool in_table = name == "map50" || name == "map";
    values.push_back(
        {.name = std::move(name), .value = value, .higher_is_better = true, .is_fraction = true, .in_table = in_table});
  };
  const MeanScores mean(classes);
  add("map50", mean.precision_at(at_50));
  add("map", mean.precision(all_areas));
  add("fitness", fitness_of(mean.precision_at(at_50), mean.precision(all_areas)));
  add("map75", mean.precision_at(at_75));
  for (std::size_t area = 1; area < area_ranges.size(); ++area)
    add(std::string("map_") + area_ranges[area].name, mean.precision(area));
  for (std::size_t limit = 0; limit < detection_limits.size(); ++limit)
    add("mar" + std::to_string(detection_limits[limit]), mean.recall(all_areas, limit));
  for (std::size_t area = 1; area < area_ranges.size(); ++area)
    add(std::string("mar_") + area_ranges[area].name, mean.recall(area, at_100));
  const bool has_boxes = mean.precision(all_areas).has_value();
  const auto if_boxes = [&](double value) { return has_boxes ? std::optional(value) : std::nullopt; };
  add("precision", if_boxes(point.precision));
  add("recall", if_boxes(point.recall));
  add("f1", if_boxes(point.f1));
  add("confidence", if_boxes(point.confidence));
  add("yolov5_map50", mean.yolov5_at_50());
  add("yolov5_map", mean.yolov5());
  return values;
}

observe::ClassCounts counts_of_classes(std::span<const ClassScores> classes, OperatingPoint point,
                                       std::vector<std::string> names) {
  observe::ClassCounts counts;
  counts.names = std::move(names);
  counts.labels = std::move(point.boxes);
  counts.predictions = std::move(point.detections);
  counts.hits = std::move(point.hits);
  counts.values = {{.name = "AP50", .values = {}}, {.name = "AP", .values = {}}};
  for (const ClassScores& one : classes) {
    counts.images.push_back(one.pictures);
    counts.values[0].values.push_back(MeanScores::value_at(one.precision[all_areas], at_50));
    counts.values[1].values.push_back(mean_of(one.precision[all_areas]));
  }
  return counts;
}

class DetectionMetric final : public trainer::Metric {
 public:
  DetectionMetric(DetectionReader reader, std::shared_ptr<const vision::Source> source)
      : reader_(reader), source_(std::move(source)) {
    values_ = detection_values({}, class_count());
  }

  void reset() override { records_.clear(); }
  void add(const nn::Prediction& prediction, const data::Batch& batch) override {
    for (std::int64_t i = 0; i < batch.samples.value; ++i) {
      const std::optional<std::vector<Detection>> detections = reader_.detections(prediction, batch, i);
      if (!detections) continue;
      const std::int64_t sample = batch.ids[static_cast<std::size_t>(i)];
      const vision::Annotation& annotation = source_->annotation(sample);
      append_records(match(annotation.image_id.value_or(sample), *detections, boxes_of(annotation)), records_);
    }
  }
  void reduce(Communicator& communicator) override {
    const std::vector<PictureOfClass> pictures = read_records(trainer::gathered(communicator, records_, "detections"));
    const std::vector<ClassScores> classes = class_scores(pictures, class_count());
    OperatingPoint point = best_operating_point(pictures, class_count());
    values_ = values_of(classes, point);
    counts_ = counts_of_classes(classes, std::move(point), source_->class_names());
  }
  [[nodiscard]] std::vector<MetricValue> values() const override { return values_; }
  [[nodiscard]] const observe::ClassCounts* classes() const override { return &counts_; }

 private:
  [[nodiscard]] std::int64_t class_count() const { return std::ssize(source_->class_names()); }

  DetectionReader reader_;
  std::shared_ptr<const vision::Source> source_;
  std::vector<std::int64_t> records_;  // of the pictures of this rank
  std::vector<MetricValue> values_;
  observe::ClassCounts counts_;
};

}  // namespace

std::vector<GroundTruth> boxes_of(const vision::Annotation& annotation) {
  std::vector<GroundTruth> boxes;
  for (const vision::Box& box : annotation.boxes) {
    const Rectangle rectangle{box.left, box.top, double{box.right} - box.left, double{box.bottom} - box.top};
    boxes.push_back({.label = box.label,
                     .box = rectangle,
                     .area = vision::area_of(box),
                     .is_crowd = box.is_crowd,
                     .is_ignored = box.is_difficult});
  }
  return boxes;
}

std::vector<MetricValue> detection_values(std::span<const PictureOfClass> pictures, std::int64_t classes) {
  return values_of(class_scores(pictures, classes), best_operating_point(pictures, classes));
}

std::vector<std::unique_ptr<trainer::Metric>> detection_metrics(const nn::Graph& graph,
                                                                const std::vector<TensorSpec>& tensors,
                                                                std::shared_ptr<const vision::Source> source,
                                                                const NmsOptions& options) {
  const DetectionReader reader(graph, tensors, std::ssize(source->class_names()), options);
  std::vector<std::unique_ptr<trainer::Metric>> metrics = trainer::loss_metrics(graph, tensors);
  metrics.push_back(std::make_unique<DetectionMetric>(reader, std::move(source)));
  return metrics;
}

}  // namespace lockstep::workloads
