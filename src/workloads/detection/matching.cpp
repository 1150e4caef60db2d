// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/matching.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace lockstep::workloads {
namespace {

/// The detections and boxes of a class in a picture, with the IoU of each pair.
class Pairs {
 public:
  std::vector<const Detection*> detections;  // by falling score
  std::vector<const GroundTruth*> boxes;

  void compute() {
    std::ranges::stable_sort(detections, std::ranges::greater{}, [](const Detection* one) { return one->score; });
    for (const Detection* detection : detections)
      for (const GroundTruth* box : boxes) ious_.push_back(iou_of_pair(*detection, *box));
  }
  [[nodiscard]] double iou(std::size_t detection, std::size_t box) const {
    return ious_[detection * boxes.size() + box];
  }
  /// The number of detections that COCO looks at.
  [[nodiscard]] std::size_t counted() const {
    return std::min(detections.size(), static_cast<std::size_t>(most_of_class));
  }

 private:
  static double iou_of_pair(const Detection& detection, const GroundTruth& box) {
    const double both = intersection(detection.box, box.box);
    if (both <= 0) return 0;
    return both / (box.is_crowd ? detection.box.area() : detection.box.area() + box.box.area() - both);
  }

  std::vector<double> ious_;
};

/// The boxes of a class for a range of areas: those that should be found, then those that need not be.
struct Wanted {
  std::vector<std::size_t> order;  // indices of the boxes
  std::size_t count = 0;           // how many of them should be found

  Wanted(const Pairs& pairs, const AreaRange& range) {
    const auto is_wanted = [&](std::size_t i) {
      const GroundTruth& box = *pairs.boxes[i];
      return !box.is_crowd && !box.is_ignored && range.contains(box.area);
    };
    for (std::size_t i = 0; i < pairs.boxes.size(); ++i) order.push_back(i);
    const auto ignored = std::stable_partition(order.begin(), order.end(), is_wanted);
    count = static_cast<std::size_t>(ignored - order.begin());
  }
  [[nodiscard]] bool is_wanted(std::size_t place) const { return place < count; }
};

/// Returns the place in the order of the box that a detection takes; nothing if it overlaps none enough.
std::optional<std::size_t> best_place(const Pairs& pairs, const Wanted& wanted, std::size_t detection, double threshold,
                                      const std::vector<bool>& is_taken) {
  double least = std::min(threshold, 1 - 1e-10);
  std::optional<std::size_t> best;
  for (std::size_t place = 0; place < wanted.order.size(); ++place) {
    if (is_taken[place]) continue;
    if (best && wanted.is_wanted(*best) && !wanted.is_wanted(place)) break;
    const double iou = pairs.iou(detection, wanted.order[place]);
    if (iou < least) continue;
    least = iou;
    best = place;
  }
  return best;
}

void judge(const Pairs& pairs, std::size_t area, std::size_t threshold, const Wanted& wanted,
           std::vector<Judgment>& judgments) {
  std::vector<bool> is_taken(wanted.order.size());
  const auto bit = static_cast<ThresholdBits>(1U << threshold);
  for (std::size_t i = 0; i < pairs.counted(); ++i) {
    const auto place = best_place(pairs, wanted, i, iou_threshold[threshold], is_taken);
    Judgment& judgment = judgments[i];
    const bool is_ignored =
        place ? !wanted.is_wanted(*place) : !area_ranges[area].contains(pairs.detections[i]->box.area());
    if (is_ignored) judgment.ignored[area] |= bit;
    if (!place) continue;
    judgment.matched[area] |= bit;
    const GroundTruth& box = *pairs.boxes[wanted.order[*place]];
    is_taken[*place] = !box.is_crowd && !box.is_ignored;
  }
}

/// Returns the box with the largest IoU that should be found, the first of equal ones; nothing if there is none.
std::optional<std::size_t> nearest_box(const Pairs& pairs, std::size_t detection) {
  std::optional<std::size_t> nearest;
  for (std::size_t box = 0; box < pairs.boxes.size(); ++box) {
    if (pairs.boxes[box]->is_crowd || pairs.boxes[box]->is_ignored) continue;
    if (!nearest || pairs.iou(detection, box) > pairs.iou(detection, *nearest)) nearest = box;
  }
  return nearest;
}

void judge_by_yolov5(const Pairs& pairs, std::vector<Judgment>& judgments) {
  std::vector<ThresholdBits> found(pairs.boxes.size());  // by box, at which thresholds
  for (std::size_t i = 0; i < judgments.size(); ++i) {
    const std::optional<std::size_t> box = nearest_box(pairs, i);
    if (!box) continue;
    ThresholdBits reached = 0;
    for (std::size_t t = 0; t < iou_thresholds; ++t)
      if (pairs.iou(i, *box) >= iou_threshold[t]) reached |= static_cast<ThresholdBits>(1U << t);
    judgments[i].matched_by_yolov5 = static_cast<ThresholdBits>(reached & ~found[*box]);
    found[*box] |= reached;
  }
}

PictureOfClass judged(std::int64_t picture, std::int32_t label, Pairs& pairs) {
  pairs.compute();
  PictureOfClass result{.picture = picture, .label = label, .boxes = {}, .detections = {}};
  for (const Detection* detection : pairs.detections) {
    result.detections.emplace_back().score = detection->score;
    // Those beyond the first ones are as if they were not there.
    if (result.detections.size() > pairs.counted()) result.detections.back().ignored.fill(all_thresholds);
  }
  for (std::size_t area = 0; area < area_ranges.size(); ++area) {
    const Wanted wanted(pairs, area_ranges[area]);
    result.boxes[area] = static_cast<std::int64_t>(wanted.count);
    for (std::size_t t = 0; t < iou_thresholds; ++t) judge(pairs, area, t, wanted, result.detections);
  }
  judge_by_yolov5(pairs, result.detections);
  return result;
}

}  // namespace

std::vector<PictureOfClass> match(std::int64_t picture, std::span<const Detection> detections,
                                  std::span<const GroundTruth> boxes) {
  std::map<std::int32_t, Pairs> classes;
  for (const Detection& detection : detections) classes[detection.label].detections.push_back(&detection);
  for (const GroundTruth& box : boxes) classes[box.label].boxes.push_back(&box);
  std::vector<PictureOfClass> results;
  for (auto& [label, pairs] : classes) results.push_back(judged(picture, label, pairs));
  return results;
}

}  // namespace lockstep::workloads
