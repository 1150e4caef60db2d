// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/base/leaves.hpp"

namespace lockstep::nn {

/// The sum in one place += that in another.
struct Fold {
  int to = 0;
  int from = 0;
  friend bool operator==(const Fold&, const Fold&) = default;
};

/// How the gradients of a rank's shards are added up in the canonical order over the shards of all ranks, each as soon
/// as its neighbor in the tree is there. In the end the places 0, 1, … hold the sums `tree_nodes` of the rank's share.
struct FoldPlan {
  std::vector<int> place;                ///< of each of the rank's shards: where its gradient is made
  std::vector<std::vector<Fold>> after;  ///< each of them: what can be added up then
  std::vector<Fold> last;                ///< when all are through
  int places = 0;                        ///< how many there are
};

/// @param shards   of all ranks
/// @param own      this rank's; at least one
/// @param streams  consecutive parts of the rank's shards, counted from its first, each of whose shards come one after
///                 the other, while the streams are independent until the end; none empty
FoldPlan plan_folds(int shards, const Share& own, std::span<const Share> streams);

}  // namespace lockstep::nn
