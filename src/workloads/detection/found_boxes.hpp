// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "workloads/detection/boxes.hpp"
#include "workloads/finding.hpp"

namespace lockstep::workloads {

/// The boxes that a detector has found in a picture, in pixels of the picture as it is stored.
class FoundBoxes final : public Finding {
 public:
  /// @param detections  the best one first
  explicit FoundBoxes(std::vector<Detection> detections) : detections_(std::move(detections)) {}

  /// Adds "boxes": class, name, score, and box, which is left, top, right and bottom.
  void add_to(nlohmann::ordered_json& object, const std::vector<std::string>& class_names) const override;
  /// Draws each box in the color of its class, with the name of the class and the score above it.
  void draw(const std::vector<std::string>& class_names, vision::Image& picture) const override;
  /// Returns how many boxes of the annotation were found at IoU 0.5, and how many detections are false; the color is
  /// that of a right one if all were found and none is false. Without boxes in the annotation, how many were found.
  [[nodiscard]] vision::Caption caption(const std::vector<std::string>& class_names,
                                        const vision::Annotation& annotation) const override;
  [[nodiscard]] std::optional<std::string> label_lines(int width, int height, bool has_scores) const override;
  /// Numbers have all their digits, so that pycocotools computes of the file what `detection_metrics` computes.
  bool add_coco(std::int64_t image_id, std::span<const std::int64_t> category_ids,
                nlohmann::ordered_json& predictions) const override;
  [[nodiscard]] const std::vector<Detection>& detections() const { return detections_; }

 private:
  std::vector<Detection> detections_;
};

/// Returns a line for each detection as YOLO's label files have them: class, center x, center y, width and height as
/// fractions of the picture, and behind them if wanted the score.
/// @param width, height  of the stored picture
std::string yolo_lines(std::span<const Detection> detections, double width, double height, bool has_scores);

}  // namespace lockstep::workloads
