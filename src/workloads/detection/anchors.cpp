// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/anchors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "base/split_mix.hpp"

namespace lockstep::workloads {
namespace {

double squared_distance(const BoxSize& a, const BoxSize& b) {
  const double width = a.width - b.width;
  const double height = a.height - b.height;
  return width * width + height * height;
}

/// Returns the standard deviations of widths and heights; 1 where all are equal.
BoxSize deviations_of(std::span<const BoxSize> boxes) {
  const auto of = [&](double BoxSize::*side) {
    double mean = 0;
    for (const BoxSize& box : boxes) mean += box.*side / static_cast<double>(boxes.size());
    double variance = 0;
    for (const BoxSize& box : boxes) variance += (box.*side - mean) * (box.*side - mean);
    variance /= static_cast<double>(boxes.size());
    return variance > 0 ? std::sqrt(variance) : 1;
  };
  return {of(&BoxSize::width), of(&BoxSize::height)};
}

/// Draws means among the boxes: each further one with a probability by its squared distance from those that there are.
std::vector<BoxSize> drawn_means(std::span<const BoxSize> boxes, std::size_t count, std::uint64_t seed) {
  std::uint64_t state = seed;
  const auto uniform = [&state] {
    state += split_mix::golden_ratio;
    return static_cast<double>(split_mix::mix(state) >> 11) * 0x1p-53;
  };
  std::vector<BoxSize> means{boxes[static_cast<std::size_t>(uniform() * static_cast<double>(boxes.size()))]};
  std::vector<double> distances(boxes.size(), std::numeric_limits<double>::infinity());
  while (means.size() < count) {
    double total = 0;
    for (std::size_t i = 0; i < boxes.size(); ++i)
      total += distances[i] = std::min(distances[i], squared_distance(boxes[i], means.back()));
    double left = uniform() * total;
    std::size_t chosen = 0;
    for (std::size_t i = 0; i < boxes.size() && left >= 0; ++i) {
      if (distances[i] == 0) continue;
      chosen = i;
      left -= distances[i];
    }
    means.push_back(boxes[chosen]);
  }
  return means;
}

/// Moves each mean to the middle of the boxes that are nearest to it. @return whether one has moved
bool move_means(std::span<const BoxSize> boxes, std::vector<BoxSize>& means) {
  std::vector<BoxSize> sums(means.size());
  std::vector<std::int64_t> counts(means.size());
  for (const BoxSize& box : boxes) {
    const auto distance = [&](const BoxSize& mean) { return squared_distance(box, mean); };
    const auto nearest = static_cast<std::size_t>(std::ranges::min_element(means, {}, distance) - means.begin());
    sums[nearest].width += box.width;
    sums[nearest].height += box.height;
    ++counts[nearest];
  }
  bool has_moved = false;
  for (std::size_t i = 0; i < means.size(); ++i) {
    if (counts[i] == 0) continue;
    const auto count = static_cast<double>(counts[i]);
    const BoxSize mean{sums[i].width / count, sums[i].height / count};
    has_moved = !(mean == std::exchange(means[i], mean)) || has_moved;
  }
  return has_moved;
}

}  // namespace

std::vector<BoxSize> box_sizes(const vision::Source& source, const vision::Size& input) {
  std::vector<BoxSize> sizes;
  for (std::int64_t sample = 0; sample < source.size(); ++sample) {
    const vision::Annotation& picture = source.annotation(sample);
    if (picture.width <= 0 || picture.height <= 0) continue;
    const double scale =
        std::min(static_cast<double>(input.width) / picture.width, static_cast<double>(input.height) / picture.height);
    for (const vision::Box& box : picture.boxes) {
      const BoxSize size{scale * (double{box.right} - box.left), scale * (double{box.bottom} - box.top)};
      if (!box.is_crowd && size.width > 0 && size.height > 0) sizes.push_back(size);
    }
  }
  return sizes;
}

double best_possible_recall(std::span<const BoxSize> boxes, std::span<const double> anchors) {
  if (boxes.empty()) return 1;
  const auto is_near = [](double side, double of_anchor) {
    return std::max(side / of_anchor, of_anchor / side) < largest_anchor_ratio;
  };
  std::int64_t matched = 0;
  for (const BoxSize& box : boxes) {
    bool matches = false;
    for (std::size_t i = 0; i + 1 < anchors.size(); i += 2)
      matches = matches || (is_near(box.width, anchors[i]) && is_near(box.height, anchors[i + 1]));
    matched += matches ? 1 : 0;
  }
  return static_cast<double>(matched) / static_cast<double>(boxes.size());
}

std::vector<double> k_means_anchors(std::span<const BoxSize> boxes, std::size_t anchors, std::uint64_t seed) {
  std::set<std::pair<double, double>> distinct;
  for (const BoxSize& box : boxes)
    if (distinct.size() < anchors) distinct.emplace(box.width, box.height);
  if (distinct.size() < anchors || anchors == 0) return {};
  const BoxSize unit = deviations_of(boxes);
  std::vector<BoxSize> scaled;
  for (const BoxSize& box : boxes) scaled.push_back({box.width / unit.width, box.height / unit.height});
  std::vector<BoxSize> means = drawn_means(scaled, anchors, seed);
  constexpr int most_rounds = 100;
  for (int round = 0; round < most_rounds && move_means(scaled, means);) ++round;
  std::ranges::stable_sort(means, {}, [](const BoxSize& mean) { return mean.width * mean.height; });
  std::vector<double> found;
  for (const BoxSize& mean : means) found.insert(found.end(), {mean.width * unit.width, mean.height * unit.height});
  return found;
}

}  // namespace lockstep::workloads
