// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::workloads {

/// A rectangle by its upper left corner and its extents, in pixels, as COCO has them.
struct Rectangle {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;

  [[nodiscard]] double right() const { return x + width; }
  [[nodiscard]] double bottom() const { return y + height; }
  [[nodiscard]] double area() const { return width * height; }
};

/// Returns the area that two rectangles share; 0 if they only touch.
inline double intersection(const Rectangle& a, const Rectangle& b) {
  const double width = std::min(a.right(), b.right()) - std::max(a.x, b.x);
  const double height = std::min(a.bottom(), b.bottom()) - std::max(a.y, b.y);
  return width > 0 && height > 0 ? width * height : 0;
}

/// A box that a model has found.
struct Detection {
  std::int32_t label = 0;
  double score = 0;  ///< objectness × probability of the class
  Rectangle box;
};

/// A box of an annotation, as evaluations need it.
struct GroundTruth {
  std::int32_t label = 0;
  Rectangle box;
  double area = 0;          ///< of the object, for ranges of areas; COCO: of its mask
  bool is_crowd = false;    ///< stands for many objects: any number of detections may lie in it, and none counts
  bool is_ignored = false;  ///< need not be found (VOC: difficult): any number of detections may match it, none counts
};

}  // namespace lockstep::workloads
