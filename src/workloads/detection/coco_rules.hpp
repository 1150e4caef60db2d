// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

/// The fixed numbers of COCO's evaluation of boxes. @source pycocotools, class Params
namespace lockstep::workloads {

inline constexpr std::size_t iou_thresholds = 10;   ///< 0.50, 0.55 … 0.95
inline constexpr std::size_t recall_points = 101;   ///< 0, 0.01 … 1
inline constexpr std::int64_t most_of_class = 100;  ///< most detections of a class in a picture that count

/// A number for each IoU threshold.
using ByThreshold = std::array<double, iou_thresholds>;

/// Returns equally spaced numbers, with the last bits that numpy's linspace gives them: detections lie on thresholds.
template <std::size_t count>
constexpr std::array<double, count> equally_spaced(double first, double last) {
  std::array<double, count> numbers{};
  const double step = (last - first) / static_cast<double>(count - 1);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<double>(i) * step + first;
  numbers[count - 1] = last;
  return numbers;
}

inline constexpr ByThreshold iou_threshold = equally_spaced<iou_thresholds>(0.5, 0.95);
inline constexpr std::size_t at_50 = 0;  ///< index of the threshold 0.50
inline constexpr std::size_t at_75 = 5;
inline constexpr std::array<double, recall_points> recall_point = equally_spaced<recall_points>(0, 1);

/// Boxes whose area is in this range, both ends included, in pixels of the stored picture.
struct AreaRange {
  const char* name;
  double least;
  double most;

  [[nodiscard]] constexpr bool contains(double area) const { return area >= least && area <= most; }
};
inline constexpr std::size_t all_areas = 0;  ///< index of the range of all boxes
inline constexpr std::array<AreaRange, 4> area_ranges{
    {{"all", 0, 1e10}, {"small", 0, 32 * 32}, {"medium", 32 * 32, 96 * 96}, {"large", 96 * 96, 1e10}}};

}  // namespace lockstep::workloads
