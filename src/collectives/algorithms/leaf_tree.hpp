// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "collectives/plan/plan.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/leaves.hpp"

/// All-reduces of more leaves than ranks, in the canonical order over the leaves: the bits do not depend on how many
/// ranks there are.
namespace lockstep::collectives {

/// Which nodes of a tree each participant brings, all of them together every leaf once.
using TreeShares = std::vector<std::vector<LeafNode>>;

/// As `Leaves` says.
TreeShares shares_of_ranks(int leaves, int ranks);
/// The same once the ranks of each node have added up as far as they can.
TreeShares shares_of_nodes(int leaves, const ClusterShape& shape);
/// The most nodes that a participant brings.
int most_nodes(const TreeShares& shares);

/// Sums that lie somewhere, put into the order of their leaves.
class TreeSources {
 public:
  void add(const LeafNode& node, const NodeRange& where) { all_.push_back({node, where}); }
  /// Those below a node of the tree, in order. @pre together they have its leaves
  struct Ordered {
    std::vector<NodeRange> from;
    std::vector<int> widths;  ///< of how many leaves each is the sum; none if all are leaves
  };
  [[nodiscard]] Ordered below(const LeafNode& node) const;

 private:
  struct Source {
    LeafNode node;
    NodeRange where;
  };
  std::vector<Source> all_;
};

/// By messages: the buffer is cut into a part for each participant, to which all others send what they have of it; it
/// adds that up and sends the sum to all.
/// @param own      where a node that this participant brings lies, of `count` elements
/// @param scratch  elements of the scratch memory that are in use
/// @cost   2(p−1)α + (m+1)(p−1)/p·nβ + (V−1)/p·nγ for m nodes a participant, V in all
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004, section 4.2 (reduce-scatter by
///         pairwise exchange, then all-gather)
Plan leaf_tree_all_reduce(Rank me, const TreeShares& shares, Count count, const std::function<Range(int node)>& own,
                          Count scratch = {});

}  // namespace lockstep::collectives
