// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// The contribution of a rank to a reduction: any number of leaves, possibly none.
struct Contribution {
  int leaves = 1;
  bool in_place = false;  ///< leaf 0 is where the result goes; unused without leaves
};

/// Prepends to `exchange` the steps that gather the rank's leaves at `destination`: nothing or a copy for one leaf,
/// sums in the order of the leaves for several, the neutral element for none.
/// @param destination  as many elements as each leaf has; the part of the output that `exchange` starts from
Plan contribute(Plan exchange, const Contribution& own, const Range& destination);

}  // namespace lockstep::collectives
