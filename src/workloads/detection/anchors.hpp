// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "vision/source/source.hpp"
#include "vision/transforms/transforms.hpp"

namespace lockstep::workloads {

/// Width and height of a box, in pixels of a network's input.
struct BoxSize {
  double width = 0;
  double height = 0;
  friend bool operator==(const BoxSize&, const BoxSize&) = default;
};

/// Returns the sizes of the boxes of a source when its pictures fit into the input with their own ratio (letterbox).
/// Crowds, and boxes of pictures whose size is not known, are left out.
std::vector<BoxSize> box_sizes(const vision::Source& source, const vision::Size& input);

/// The ratio of a box to an anchor, in width and in height, below which one can match the other.
inline constexpr double largest_anchor_ratio = 4;

/// Returns the fraction of the boxes that at least one anchor can match, the best possible recall; 1 without boxes.
/// @param anchors  width and height of each
double best_possible_recall(std::span<const BoxSize> boxes, std::span<const double> anchors);

/// Returns anchors for boxes: the k means of their sizes, by area, the smallest first. Sizes are compared in standard
/// deviations of their widths and heights. The result depends on the arguments only.
/// @param anchors  how many; none are returned if fewer sizes than that differ
/// @cost  boxes · anchors for each of at most 100 rounds
/// @source Lloyd, "Least squares quantization in PCM", 1982; Arthur & Vassilvitskii, "k-means++", SODA 2007
std::vector<double> k_means_anchors(std::span<const BoxSize> boxes, std::size_t anchors, std::uint64_t seed);

}  // namespace lockstep::workloads
