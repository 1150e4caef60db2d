// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/average_precision.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>

namespace lockstep::workloads {
namespace {

/// Precision and recall after each detection that counts, by falling score.
struct Curve {
  std::vector<double> precision;  // made monotone: the largest of the following ones
  std::vector<double> recall;
};

/// @param is_match  for each detection that counts, by falling score
/// @param rounding  keeps the divisor from 0, and decides the last bits
Curve curve_of(const std::vector<bool>& is_match, double boxes, double rounding) {
  Curve curve;
  double found = 0;
  for (std::size_t i = 0; i < is_match.size(); ++i) {
    found += is_match[i] ? 1 : 0;
    curve.precision.push_back(found / (static_cast<double>(i + 1) + rounding));
    curve.recall.push_back(found / boxes);
  }
  for (std::size_t i = curve.precision.size(); i > 1; --i)
    curve.precision[i - 2] = std::max(curve.precision[i - 2], curve.precision[i - 1]);
  return curve;
}

double coco_precision(const Curve& curve) {
  double sum = 0;
  auto at = curve.recall.begin();
  for (const double recall : recall_point) {
    at = std::lower_bound(at, curve.recall.end(), recall);
    if (at == curve.recall.end()) break;  // the precision is 0 from here on
    sum += curve.precision[static_cast<std::size_t>(at - curve.recall.begin())];
  }
  return sum / static_cast<double>(recall_points);
}

/// Returns the precision at a recall, linear between the points of the curve, which begins at precision 1 and ends at
/// 0.
double interpolated(const Curve& curve, double recall) {
  const auto next = std::ranges::upper_bound(curve.recall, recall);
  const auto i = static_cast<std::size_t>(next - curve.recall.begin());
  if (recall >= 1) return 0;
  const double left = i == 0 ? 0 : curve.recall[i - 1];
  const double from = i == 0 ? 1 : curve.precision[i - 1];
  const double right = i == curve.recall.size() ? 1 : curve.recall[i];
  const double to = i == curve.recall.size() ? 0 : curve.precision[i];
  return from + (to - from) * (recall - left) / (right - left);
}

double trapezoids(const Curve& curve) {
  double sum = 0;
  for (std::size_t i = 0; i + 1 < recall_points; ++i)
    sum += (interpolated(curve, recall_point[i]) + interpolated(curve, recall_point[i + 1])) / 2 *
           (recall_point[i + 1] - recall_point[i]);
  return sum;
}

/// The detections of a class in all pictures.
struct Detections {
  std::vector<const Judgment*> by_score;        // those of earlier pictures first among equals
  std::vector<std::int64_t> rank_in_picture;    // in the order of pictures, from 0
  std::vector<const Judgment*> in_their_order;  // of pictures
  std::array<std::int64_t, area_ranges.size()> boxes{};
  std::int64_t pictures = 0;

  void add(const PictureOfClass& picture) {
    for (std::size_t area = 0; area < boxes.size(); ++area) boxes[area] += picture.boxes[area];
    pictures += picture.boxes[all_areas] > 0 ? 1 : 0;
    for (std::size_t i = 0; i < picture.detections.size(); ++i) {
      in_their_order.push_back(&picture.detections[i]);
      rank_in_picture.push_back(static_cast<std::int64_t>(i));
    }
  }
  void sort() {
    by_score = in_their_order;
    std::ranges::stable_sort(by_score, std::ranges::greater{}, [](const Judgment* one) { return one->score; });
  }
};

double precision_at(const Detections& of, std::size_t area, std::size_t threshold) {
  std::vector<bool> is_match;
  for (const Judgment* one : of.by_score)
    if (one->counts(area, threshold)) is_match.push_back(one->is_match(area, threshold));
  constexpr double spacing_of_one = std::numeric_limits<double>::epsilon();
  return coco_precision(curve_of(is_match, static_cast<double>(of.boxes[area]), spacing_of_one));
}

double recall_at(const Detections& of, std::size_t area, std::size_t threshold, std::int64_t most) {
  std::int64_t found = 0;
  for (std::size_t i = 0; i < of.in_their_order.size(); ++i) {
    const Judgment& one = *of.in_their_order[i];
    if (of.rank_in_picture[i] < most && one.counts(area, threshold) && one.is_match(area, threshold)) ++found;
  }
  return static_cast<double>(found) / static_cast<double>(of.boxes[area]);
}

double yolov5_precision_at(const Detections& of, std::size_t threshold) {
  std::vector<bool> is_match;
  for (const Judgment* one : of.by_score) is_match.push_back((one->matched_by_yolov5 >> threshold & 1) != 0);
  return is_match.empty() ? 0 : trapezoids(curve_of(is_match, static_cast<double>(of.boxes[all_areas]), 0));
}

/// Returns the value of a function for each threshold.
template <typename F>
ByThreshold for_thresholds(const F& f) {
  ByThreshold values{};
  for (std::size_t t = 0; t < iou_thresholds; ++t) values[t] = f(t);
  return values;
}

ClassScores scores_of_class(Detections& of) {
  of.sort();
  ClassScores scores;
  scores.pictures = of.pictures;
  scores.boxes = of.boxes[all_areas];
  for (std::size_t area = 0; area < area_ranges.size(); ++area) {
    if (of.boxes[area] == 0) continue;
    scores.precision[area] = for_thresholds([&](std::size_t t) { return precision_at(of, area, t); });
    for (std::size_t limit = 0; limit < detection_limits.size(); ++limit)
      if (area == all_areas || limit == at_100)
        scores.recall[limit][area] =
            for_thresholds([&](std::size_t t) { return recall_at(of, area, t, detection_limits[limit]); });
  }
  if (scores.boxes > 0)
    scores.yolov5_precision = for_thresholds([&](std::size_t t) { return yolov5_precision_at(of, t); });
  return scores;
}

}  // namespace

std::vector<ClassScores> class_scores(std::span<const PictureOfClass> pictures, std::int64_t classes) {
  std::vector<Detections> by_class(static_cast<std::size_t>(classes));
  for (const PictureOfClass& picture : pictures) by_class[static_cast<std::size_t>(picture.label)].add(picture);
  std::vector<ClassScores> scores;
  for (Detections& of : by_class) scores.push_back(scores_of_class(of));
  return scores;
}

std::optional<double> mean_of(const std::optional<ByThreshold>& values) {
  if (!values) return std::nullopt;
  return std::accumulate(values->begin(), values->end(), 0.0) / static_cast<double>(values->size());
}

}  // namespace lockstep::workloads
