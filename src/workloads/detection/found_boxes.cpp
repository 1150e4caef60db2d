// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/found_boxes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/wrapped.hpp"
#include "vision/image/draw.hpp"
#include "workloads/detection/detection_metrics.hpp"
#include "workloads/detection/matching.hpp"

namespace lockstep::workloads {
namespace {

using nlohmann::ordered_json;

constexpr int label_height = 16;

double to_decimals(double value, double steps) { return std::round(value * steps) / steps; }

vision::Region region_of(const Rectangle& box) {
  const auto left = static_cast<int>(std::floor(box.x));
  const auto top = static_cast<int>(std::floor(box.y));
  return {.left = left,
          .top = top,
          .width = static_cast<int>(std::ceil(box.right())) - left,
          .height = static_cast<int>(std::ceil(box.bottom())) - top};
}

/// Returns the width of lines that are seen when the whole picture is looked at.
int line_width(const vision::Image& picture) { return std::max(1, (picture.width + picture.height) / 500); }

const std::string& class_name(const std::vector<std::string>& names, const Detection& detection) {
  return names[static_cast<std::size_t>(detection.label)];
}

}  // namespace

void FoundBoxes::add_to(ordered_json& object, const std::vector<std::string>& class_names) const {
  ordered_json& boxes = object["boxes"] = ordered_json::array();
  for (const Detection& one : detections_) {
    ordered_json edges = ordered_json::array();
    for (const double edge : {one.box.x, one.box.y, one.box.right(), one.box.bottom()})
      edges.push_back(to_decimals(edge, 100));
    boxes.push_back({{"class", one.label},
                     {"name", class_name(class_names, one)},
                     {"score", to_decimals(one.score, 1e6)},
                     {"box", std::move(edges)}});
  }
}

void FoundBoxes::draw(const std::vector<std::string>& class_names, vision::Image& picture) const {
  const int line = line_width(picture);
  for (std::size_t i = detections_.size(); i-- > 0;)  // the best one is on top
    vision::draw_rectangle(region_of(detections_[i].box), line, vision::class_color(detections_[i].label), picture);
  for (std::size_t i = detections_.size(); i-- > 0;) {
    const Detection& one = detections_[i];
    const vision::Region region = region_of(one.box);
    vision::draw_label(class_name(class_names, one) + format_text(" %.2f", one.score), region.left,
                       region.top - label_height, vision::class_color(one.label), picture);
  }
}

vision::Caption FoundBoxes::caption(const std::vector<std::string>& /*class_names*/,
                                    const vision::Annotation& annotation) const {
  constexpr vision::Color right{60, 170, 80};
  constexpr vision::Color wrong{200, 50, 50};
  std::int64_t boxes = 0;
  std::int64_t hits = 0;
  std::int64_t false_ones = 0;
  for (const PictureOfClass& one : match(0, detections_, boxes_of(annotation))) {
    boxes += one.boxes[all_areas];
    for (const Judgment& judgment : one.detections) {
      if (!judgment.counts(all_areas, at_50)) continue;
      ++(judgment.is_match(all_areas, at_50) ? hits : false_ones);
    }
  }
  if (annotation.boxes.empty())
    return {std::to_string(detections_.size()) + (detections_.size() == 1 ? " box" : " boxes"),
            false_ones == 0 ? right : wrong};
  return {std::to_string(hits) + " of " + std::to_string(boxes) + " found, " + std::to_string(false_ones) + " false",
          hits == boxes && false_ones == 0 ? right : wrong};
}

std::string yolo_lines(std::span<const Detection> detections, double width, double height, bool has_scores) {
  std::string lines;
  for (const Detection& one : detections) {
    lines += format_text("%d %.6f %.6f %.6f %.6f", one.label, (one.box.x + one.box.width / 2) / width,
                         (one.box.y + one.box.height / 2) / height, one.box.width / width, one.box.height / height);
    lines += (has_scores ? format_text(" %.6f", one.score) : std::string()) + '\n';
  }
  return lines;
}

std::optional<std::string> FoundBoxes::label_lines(int width, int height, bool has_scores) const {
  return yolo_lines(detections_, width, height, has_scores);
}

bool FoundBoxes::add_coco(std::int64_t image_id, std::span<const std::int64_t> category_ids,
                          ordered_json& predictions) const {
  for (const Detection& one : detections_)
    predictions.push_back(
        {{"image_id", image_id},
         {"category_id", category_ids.empty() ? one.label : category_ids[static_cast<std::size_t>(one.label)]},
         {"bbox", {one.box.x, one.box.y, one.box.width, one.box.height}},
         {"score", one.score}});
  return true;
}

}  // namespace lockstep::workloads
