// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "workloads/detection/average_precision.hpp"

namespace lockstep::workloads {
namespace {

constexpr std::size_t confidences = 1001;

double confidence_at(std::size_t index) { return static_cast<double>(index) / (confidences - 1); }

/// Returns the index of the largest confidence that a score reaches.
std::size_t reached_by(double score) {
  auto index = static_cast<std::size_t>(std::clamp(score, 0.0, 1.0) * (confidences - 1));
  if (index + 1 < confidences && confidence_at(index + 1) <= score) ++index;  // the product may round either way
  if (confidence_at(index) > score && index > 0) --index;
  return index;
}

/// Detections and hits of a class by confidence.
struct Tally {
  std::int64_t boxes = 0;
  std::vector<std::int64_t> detections = std::vector<std::int64_t>(confidences);
  std::vector<std::int64_t> hits = std::vector<std::int64_t>(confidences);

  void add(const PictureOfClass& picture) {
    boxes += picture.boxes[all_areas];
    for (const Judgment& one : picture.detections) {
      if (!one.counts(all_areas, at_50)) continue;
      const std::size_t index = reached_by(one.score);
      ++detections[index];
      hits[index] += one.is_match(all_areas, at_50) ? 1 : 0;
    }
  }
  /// Lets a detection count at all confidences that it reaches.
  void sum_up() {
    for (std::size_t i = confidences - 1; i > 0; --i) {
      detections[i - 1] += detections[i];
      hits[i - 1] += hits[i];
    }
  }
  [[nodiscard]] double precision(std::size_t i) const { return quotient(hits[i], detections[i]); }
  [[nodiscard]] double recall(std::size_t i) const { return quotient(hits[i], boxes); }
  [[nodiscard]] double f1(std::size_t i) const { return quotient(2 * hits[i], boxes + detections[i]); }

 private:
  static double quotient(std::int64_t part, std::int64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  }
};

/// Returns the mean over the classes that have boxes.
template <typename ValueOf>
double mean_over(const std::vector<Tally>& tallies, const ValueOf& value_of) {
  double sum = 0;
  int count = 0;
  for (const Tally& tally : tallies) {
    if (tally.boxes == 0) continue;
    sum += value_of(tally);
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

}  // namespace

OperatingPoint best_operating_point(std::span<const PictureOfClass> pictures, std::int64_t classes) {
  std::vector<Tally> tallies(static_cast<std::size_t>(classes));
  for (const PictureOfClass& picture : pictures) tallies[static_cast<std::size_t>(picture.label)].add(picture);
  for (Tally& tally : tallies) tally.sum_up();
  OperatingPoint best;
  best.f1 = -1;
  std::size_t index = 0;
  for (std::size_t i = 0; i < confidences; ++i) {
    const double f1 = mean_over(tallies, [i](const Tally& tally) { return tally.f1(i); });
    if (f1 <= best.f1) continue;
    best.f1 = f1;
    index = i;
  }
  best.confidence = confidence_at(index);
  best.precision = mean_over(tallies, [&](const Tally& tally) { return tally.precision(index); });
  best.recall = mean_over(tallies, [&](const Tally& tally) { return tally.recall(index); });
  for (const Tally& tally : tallies) {
    best.boxes.push_back(tally.boxes);
    best.detections.push_back(tally.detections[index]);
    best.hits.push_back(tally.hits[index]);
  }
  return best;
}

}  // namespace lockstep::workloads
