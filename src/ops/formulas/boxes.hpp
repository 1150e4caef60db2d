// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/step.hpp"

/// The generalized intersection over union of two boxes, the same source on every device.
namespace lockstep::ops {

/// x1, y1, x2, y2: elements k and k + 2 are the ends along axis k.
struct Box {
  double at[4];
  [[nodiscard]] LOCKSTEP_HOST_DEVICE double area() const { return (at[2] - at[0]) * (at[3] - at[1]); }
};

/// The areas that the loss of two boxes consists of.
struct Areas {
  double inner[2];  ///< extents of the intersection; negative if there is a gap
  double outer[2];  ///< extents of the smallest box that contains both
  bool overlapping;
  double common;
  double united;
  double hull;
  double united_divisor;
  double hull_divisor;

  LOCKSTEP_HOST_DEVICE Areas(const Box& a, const Box& b, double epsilon) {
    for (int k = 0; k < 2; ++k) {
      inner[k] = smaller(a.at[k + 2], b.at[k + 2]) - larger(a.at[k], b.at[k]);
      outer[k] = larger(a.at[k + 2], b.at[k + 2]) - smaller(a.at[k], b.at[k]);
    }
    overlapping = inner[0] > 0 && inner[1] > 0;
    common = overlapping ? inner[0] * inner[1] : 0;
    united = a.area() + b.area() - common;
    hull = outer[0] * outer[1];
    united_divisor = larger(united, 0) + epsilon;
    hull_divisor = larger(hull, 0) + epsilon;
  }
  // A NaN in the first operand stays, so that a diverged loss is visible.
  LOCKSTEP_HOST_DEVICE static double smaller(double a, double b) { return b < a ? b : a; }
  LOCKSTEP_HOST_DEVICE static double larger(double a, double b) { return a < b ? b : a; }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE double loss() const {
    return 1 - common / united_divisor + (hull - united) / hull_divisor;
  }
};

/// Returns the derivative of max(a, b) by a; it is 0.5 for equal values.
LOCKSTEP_HOST_DEVICE inline double is_larger(double a, double b) { return a == b ? 0.5 : static_cast<double>(a > b); }

/// Returns the gradient of the loss with respect to the coordinates of `a`.
LOCKSTEP_HOST_DEVICE inline Box gradient_of(const Areas& areas, const Box& a, const Box& b) {
  const double by_united =
      (areas.united > 0 ? areas.common / areas.united_divisor / areas.united_divisor : 0) - 1 / areas.hull_divisor;
  // The intersection is in both boxes, but counts only once in the union.
  const double by_common = -1 / areas.united_divisor - by_united;
  const double by_hull =
      (areas.hull > 0 ? 1 - (areas.hull - areas.united) / areas.hull_divisor : 1.0) / areas.hull_divisor;
  Box gradient;
  for (int k = 0; k < 2; ++k) {
    const int other = 1 - k;
    const double common = by_common * (areas.overlapping ? areas.inner[other] : 0);
    const double united = by_united * (a.at[other + 2] - a.at[other]);
    const double hull = by_hull * areas.outer[other];
    gradient.at[k] = -(common * is_larger(a.at[k], b.at[k]) + united + hull * is_larger(b.at[k], a.at[k]));
    gradient.at[k + 2] =
        common * is_larger(b.at[k + 2], a.at[k + 2]) + united + hull * is_larger(a.at[k + 2], b.at[k + 2]);
  }
  return gradient;
}

}  // namespace lockstep::ops
