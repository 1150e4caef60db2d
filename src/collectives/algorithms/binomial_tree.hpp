// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>

#include "collectives/plan/partition.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::collectives {

/// A rank's position in the binomial tree. Ranks are relabeled so that the root is 0; a label's parent is the label
/// without its lowest set bit, so the labels of a subtree are consecutive.
class TreeNode {
 public:
  TreeNode(Rank me, int ranks, Rank root) : ranks_(ranks), root_(root.value), label_(wrap(me.value - root_, ranks)) {}

  [[nodiscard]] bool is_root() const { return label_ == 0; }
  [[nodiscard]] int parent() const { return rank_above(-(label_ & -label_)); }
  /// Returns the child whose subtree begins `distance` labels above this label; nothing if the tree ends before.
  [[nodiscard]] std::optional<int> child(int distance) const {
    if (label_ + distance >= ranks_) return std::nullopt;
    return rank_above(distance);
  }
  /// Returns the number of ranks in that child's subtree. @pre the child exists
  [[nodiscard]] int ranks_below(int distance) const { return std::min(distance, ranks_ - label_ - distance); }
  /// Returns the number of ranks in this node's subtree.
  [[nodiscard]] int subtree() const { return is_root() ? ranks_ : std::min(reach(), ranks_ - label_); }
  /// Children are at distances 1, 2, 4, … below this.
  [[nodiscard]] int reach() const { return is_root() ? 2 * floor_power_of_two(ranks_) : label_ & -label_; }
  /// Returns the rank whose label is `distance` above this one's.
  [[nodiscard]] int rank_above(int distance) const { return wrap(label_ + distance + root_, ranks_); }

 private:
  int ranks_;
  int root_;
  int label_;
};

}  // namespace lockstep::collectives
