// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/non_max_suppression.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

namespace lockstep::workloads {
namespace {

constexpr std::int64_t box_numbers = 5;  // of each box, before the classes

template <typename Real>
struct Candidate {
  Real score;
  std::int32_t box;
  std::int32_t label;

  /// Whether the other one is taken first: the order of a heap.
  [[nodiscard]] bool operator<(const Candidate& other) const {
    if (score != other.score) return score < other.score;
    return box != other.box ? box > other.box : label > other.label;
  }
};

/// The best candidates of any number.
template <typename Real>
class BestCandidates {
 public:
  BestCandidates(Real least, std::int64_t most) : least_(least), most_(static_cast<std::size_t>(most)) {}

  void add(Real score, std::int32_t box, std::int32_t label) {
    if (!(score > least_) || score < floor_) return;
    candidates_.push_back({score, box, label});
    if (candidates_.size() >= 2 * most_) leave_out();
  }
  std::vector<Candidate<Real>> take() { return std::move(candidates_); }

 private:
  /// Half of the candidates go, and others that are worse than the rest need not come.
  void leave_out() {
    const auto worst = candidates_.begin() + static_cast<std::ptrdiff_t>(most_) - 1;
    std::nth_element(candidates_.begin(), worst, candidates_.end(), [](const auto& a, const auto& b) { return b < a; });
    floor_ = worst->score;
    candidates_.resize(most_);
  }

  Real least_;
  Real floor_ = 0;
  std::size_t most_;
  std::vector<Candidate<Real>> candidates_;
};

/// A sample's outputs, a row for each number of a box.
template <typename Real>
struct BoxOutputs {
  const Real* numbers;
  std::int64_t boxes;
  std::int64_t classes;

  [[nodiscard]] const Real* row(std::int64_t number) const { return numbers + number * boxes; }
  [[nodiscard]] const Real* row_of_class(std::int64_t label) const { return row(box_numbers + label); }
};

/// Appends a candidate for each pair of a box and a class with enough score.
template <typename Real>
void add_all_labels(const BoxOutputs<Real>& of, std::span<const std::int32_t> boxes, BestCandidates<Real>& candidates) {
  const Real* objectness = of.row(box_numbers - 1);
  for (std::int64_t label = 0; label < of.classes; ++label) {
    const Real* probability = of.row_of_class(label);
    for (const std::int32_t box : boxes)
      candidates.add(objectness[box] * probability[box], box, static_cast<std::int32_t>(label));
  }
}

/// Appends a candidate for each box whose best class, the first of equal ones, has enough score.
template <typename Real>
void add_best_labels(const BoxOutputs<Real>& of, std::span<const std::int32_t> boxes,
                     BestCandidates<Real>& candidates) {
  const Real* objectness = of.row(box_numbers - 1);
  for (const std::int32_t box : boxes) {
    std::int32_t best = 0;
    for (std::int32_t label = 1; label < of.classes; ++label)
      best = of.row_of_class(label)[box] > of.row_of_class(best)[box] ? label : best;
    candidates.add(objectness[box] * of.row_of_class(best)[box], box, best);
  }
}

/// A box by its edges: left, top, right, bottom.
template <typename Real>
using Edges = std::array<Real, 4>;

template <typename Real>
Edges<Real> edges_of(const BoxOutputs<Real>& of, std::int32_t box) {
  const Real half_width = of.row(2)[box] / 2;
  const Real half_height = of.row(3)[box] / 2;
  const Real x = of.row(0)[box];
  const Real y = of.row(1)[box];
  return {x - half_width, y - half_height, x + half_width, y + half_height};
}

template <typename Real>
Real area_of_edges(const Edges<Real>& of) {
  return (of[2] - of[0]) * (of[3] - of[1]);
}

template <typename Real>
Real iou_of(const Edges<Real>& a, const Edges<Real>& b) {
  const Real width = std::max(Real{0}, std::min(a[2], b[2]) - std::max(a[0], b[0]));
  const Real height = std::max(Real{0}, std::min(a[3], b[3]) - std::max(a[1], b[1]));
  const Real both = width * height;
  return both / (area_of_edges(a) + area_of_edges(b) - both);
}

template <typename Real>
std::vector<Candidate<Real>> candidates_of(const BoxOutputs<Real>& of, const NmsOptions& options) {
  const Real least = static_cast<Real>(options.confidence);
  const Real* objectness = of.row(box_numbers - 1);
  std::vector<std::int32_t> boxes;
  for (std::int64_t box = 0; box < of.boxes; ++box)
    if (objectness[box] > least) boxes.push_back(static_cast<std::int32_t>(box));
  BestCandidates<Real> candidates(least, options.most_candidates);
  if (options.has_several_labels) {
    add_all_labels<Real>(of, boxes, candidates);
  } else {
    add_best_labels<Real>(of, boxes, candidates);
  }
  return candidates.take();
}

template <typename Real>
std::vector<Detection> suppressed_of(const BoxOutputs<Real>& of, const NmsOptions& options) {
  std::vector<Candidate<Real>> heap = candidates_of(of, options);
  std::make_heap(heap.begin(), heap.end());
  auto end = heap.end();
  std::vector<std::vector<Edges<Real>>> kept(static_cast<std::size_t>(of.classes));
  std::vector<Detection> detections;
  // Only boxes that were taken suppress others, so no more need to be compared than there can be detections.
  for (std::int64_t taken = 0; end != heap.begin() && taken < options.most_candidates; ++taken) {
    if (std::ssize(detections) >= options.most) break;
    std::pop_heap(heap.begin(), end--);
    const Edges<Real> edges = edges_of(of, end->box);
    if (!std::ranges::all_of(edges, [](Real edge) { return std::isfinite(edge); })) continue;
    std::vector<Edges<Real>>& better = kept[static_cast<std::size_t>(end->label)];
    const auto overlaps = [&](const Edges<Real>& other) {
      return static_cast<double>(iou_of(other, edges)) > options.iou;
    };
    if (std::ranges::any_of(better, overlaps)) continue;
    better.push_back(edges);
    const double left = edges[0];
    const double top = edges[1];
    detections.push_back({end->label, end->score, {left, top, edges[2] - left, edges[3] - top}});
  }
  return detections;
}

}  // namespace

std::vector<Detection> non_max_suppression(const Buffer& outputs, std::int64_t classes, const NmsOptions& options) {
  const std::int64_t boxes = outputs.count.value / (box_numbers + classes);
  if (outputs.dtype == DType::float64)
    return suppressed_of<double>({static_cast<const double*>(outputs.data), boxes, classes}, options);
  return suppressed_of<float>({static_cast<const float*>(outputs.data), boxes, classes}, options);
}

}  // namespace lockstep::workloads
