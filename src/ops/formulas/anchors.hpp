// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>

#include "lockstep/ops/operators.hpp"
#include "ops/formulas/boxes.hpp"

/// Detectors with anchors: which predictions a box matches, and what its prediction is worth; the same source on every
/// device. Coordinates are in cells of a map, unless pixels are mentioned.
namespace lockstep::ops {

/// The numbers of a prediction before those of the classes: x, y, width, height, objectness.
inline constexpr std::int64_t numbers_of_box = 5;
inline constexpr std::int64_t most_anchors = 16;

/// The extents of a map of predictions, and its anchors.
struct AnchorMap {
  std::int64_t samples;
  std::int64_t height;
  std::int64_t width;
  std::int64_t anchors;
  std::int64_t numbers;  ///< of a prediction: 5 and the classes
  double stride;         ///< pixels of a cell
  double sizes[most_anchors][2] = {};

  AnchorMap(const Shape& map, std::span<const AnchorSize> of, std::int64_t pixels)
      : samples(map.batch),
        height(map.height),
        width(map.width),
        anchors(static_cast<std::int64_t>(of.size())),
        numbers(map.channels / anchors),
        stride(static_cast<double>(pixels)) {
    for (std::size_t a = 0; a < of.size(); ++a)
      for (std::size_t k = 0; k < 2; ++k) sizes[a][k] = of[a][k] / stride;
  }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t classes() const { return numbers - numbers_of_box; }
  /// The number of cells of all samples, with each anchor.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t cells() const { return samples * anchors * height * width; }
};

struct CenteredBox {
  double x;
  double y;
  double width;
  double height;

  [[nodiscard]] LOCKSTEP_HOST_DEVICE Box corners() const {
    return {{x - width / 2, y - height / 2, x + width / 2, y + height / 2}};
  }
};

/// A place along an axis of a map: its cell, and the nearest other cell if that is matched, too.
struct AnchorCell {
  std::int64_t own;
  std::int64_t neighbor = -1;  ///< −1: none

  LOCKSTEP_HOST_DEVICE AnchorCell(double at, std::int64_t cells) {
    const auto end = static_cast<double>(cells);
    const double inside = at < 0 ? 0 : (at < end ? at : end);
    const double cell = std::floor(inside);
    own = static_cast<std::int64_t>(cell) < cells ? static_cast<std::int64_t>(cell) : cells - 1;
    if (inside - cell < 0.5 && inside > 1) neighbor = own - 1;
    if (inside - cell > 0.5 && end - inside > 1) neighbor = own + 1;
  }
};

/// A box of the targets.
struct AnchorTarget {
  CenteredBox box;
  std::int64_t label;  ///< −1: there is no box
  AnchorCell column;
  AnchorCell row;

  /// @param numbers  class, and center and extents in pixels
  LOCKSTEP_HOST_DEVICE AnchorTarget(const double (&of)[numbers_of_box], const AnchorMap& map)
      : box{of[1] / map.stride, of[2] / map.stride, of[3] / map.stride, of[4] / map.stride},
        label(of[0] > -0.5 ? static_cast<std::int64_t>(std::floor(of[0] + 0.5)) : -1),
        column(box.x, map.width),
        row(box.y, map.height) {}

  /// Whether there is a box, of a class that the map has.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE bool exists(const AnchorMap& map) const {
    return label >= 0 && label < map.classes();
  }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE bool fits(const double (&anchor)[2]) const {
    const double wider = box.width / anchor[0];
    const double taller = box.height / anchor[1];
    return wider < 4 && 1 / wider < 4 && taller < 4 && 1 / taller < 4;
  }
  /// Whether a cell is its own or one of the up to two neighbors.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE bool is_at(std::int64_t y, std::int64_t x) const {
    return (y == row.own && (x == column.own || x == column.neighbor)) || (x == column.own && y == row.neighbor);
  }
  /// The number of cells, with each anchor, that it matches.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t matches(const AnchorMap& map) const {
    if (!exists(map)) return 0;
    std::int64_t fitting = 0;
    for (std::int64_t a = 0; a < map.anchors; ++a) fitting += fits(map.sizes[a]) ? 1 : 0;
    return fitting * (1 + (column.neighbor < 0 ? 0 : 1) + (row.neighbor < 0 ? 0 : 1));
  }
};

/// x, y, width or height of a prediction.
/// @param k        0 … 3, as in the map
/// @param sigmoid  of the logit
/// @param cell     column or row, for x and y
/// @param anchor   width or height, for these
template <typename T>
LOCKSTEP_HOST_DEVICE T decoded(int k, T sigmoid, T cell, T anchor) {
  const T twice = 2 * sigmoid;
  return k < 2 ? twice - T{0.5} + cell : twice * twice * anchor;
}

/// A prediction of a cell.
struct AnchorPrediction {
  double sigmoids[4];
  CenteredBox box;

  LOCKSTEP_HOST_DEVICE AnchorPrediction(const double (&logits)[4], std::int64_t row, std::int64_t column,
                                        const double (&anchor)[2]) {
    const double cell[2] = {static_cast<double>(column), static_cast<double>(row)};
    double at[4];
    for (int k = 0; k < 4; ++k) {
      sigmoids[k] = 1 / (1 + std::exp(-logits[k]));
      at[k] = decoded(k, sigmoids[k], cell[k % 2], anchor[k % 2]);
    }
    box = {at[0], at[1], at[2], at[3]};
  }
  /// Turns a derivative with respect to x, y, width or height into that with respect to its logit.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE double by_logit(int k, double by_box) const {
    const double rest = 1 - sigmoids[k];
    if (k < 2) return by_box * 2 * sigmoids[k] * rest;
    return by_box * 2 * rest * (k == 2 ? box.width : box.height);
  }
};

/// The complete intersection over union of a prediction and a target.
/// @source Zheng et al., "Distance-IoU Loss", AAAI 2020
struct CompleteIou {
  static constexpr double epsilon = 1e-7;
  static constexpr double scale = 4 * std::numbers::inv_pi * std::numbers::inv_pi;
  Areas areas;
  double apart[2];    ///< target − prediction, of the centers
  double distance;    ///< square of that of the centers
  double diagonal;    ///< square of that of the smallest box around both, and epsilon
  double difference;  ///< of the angles of their diagonals
  double tradeoff;    ///< α, a constant for gradients

  LOCKSTEP_HOST_DEVICE CompleteIou(const CenteredBox& a, const CenteredBox& b)
      : areas(a.corners(), b.corners(), epsilon), apart{b.x - a.x, b.y - a.y} {
    distance = apart[0] * apart[0] + apart[1] * apart[1];
    diagonal = areas.outer[0] * areas.outer[0] + areas.outer[1] * areas.outer[1] + epsilon;
    difference = std::atan2(b.width, b.height) - std::atan2(a.width, a.height);
    const double aspect = scale * difference * difference;
    tradeoff = aspect / (aspect - iou() + 1 + epsilon);
  }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE double iou() const { return areas.common / areas.united_divisor; }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE double value() const {
    return iou() - distance / diagonal - scale * difference * difference * tradeoff;
  }

  /// Sets the derivatives of 1 − CIoU with respect to x, y, width and height of the prediction.
  LOCKSTEP_HOST_DEVICE void gradient(const CenteredBox& a, const CenteredBox& b, double (&by)[4]) const {
    const Box own = a.corners();
    const Box other = b.corners();
    const double by_united = areas.common / areas.united_divisor / areas.united_divisor;
    const double by_common = -1 / areas.united_divisor - by_united;
    const double by_diagonal = -distance / diagonal / diagonal;
    const double extents[2] = {a.width, a.height};
    for (int k = 0; k < 2; ++k) {
      const double common = by_common * (areas.overlapping ? areas.inner[1 - k] : 0);
      const double outer = by_diagonal * 2 * areas.outer[k];
      const double low = -common * is_larger(own.at[k], other.at[k]) - outer * is_larger(other.at[k], own.at[k]);
      const double high =
          common * is_larger(other.at[k + 2], own.at[k + 2]) + outer * is_larger(own.at[k + 2], other.at[k + 2]);
      by[k] = low + high - 2 * apart[k] / diagonal;
      by[k + 2] = (high - low) / 2 + by_united * extents[1 - k];
    }
    const double square = a.width * a.width + a.height * a.height;
    const double by_angle = square > 0 ? -2 * scale * tradeoff * difference / square : 0;
    by[2] += by_angle * a.height;
    by[3] -= by_angle * a.width;
  }
};

}  // namespace lockstep::ops
