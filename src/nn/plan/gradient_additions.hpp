// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/base/leaves.hpp"

namespace lockstep::nn {

/// An addition of one gradient buffer to another: to += from.
struct GradientAddition {
  int to = 0;
  int from = 0;
  friend bool operator==(const GradientAddition&, const GradientAddition&) = default;
};

/// The order in which a rank adds the gradients of its shards: the canonical order over all shards. Each is added
/// as soon as its neighbor in the tree is complete. At the end the gradient buffers 0, 1, … hold the sums `tree_nodes`
/// of the rank's shards.
struct GradientAdditions {
  std::vector<int> place;                            ///< the gradient buffer of each of the rank's shards
  std::vector<std::vector<GradientAddition>> after;  ///< the additions to make after each shard
  std::vector<GradientAddition> last;                ///< the additions to make after all shards
  int places = 0;                                    ///< number of gradient buffers
};

/// @param shards   number of shards of all ranks
/// @param own      this rank's shards; at least one
/// @param streams  consecutive ranges of the rank's shards, counted from its first; none is empty. The shards of a
///        stream run one after the other; the streams are independent until the end.
GradientAdditions plan_gradient_additions(int shards, const Share& own, std::span<const Share> streams);

}  // namespace lockstep::nn
