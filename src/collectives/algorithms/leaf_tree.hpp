// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "collectives/plan/plan.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/leaves.hpp"

/// All-reduces of more leaves than ranks, in the canonical order over the leaves. The bits do not depend on the number
/// of ranks.
namespace lockstep::collectives {

/// The nodes of the tree that each participant contributes; together they contain every leaf once.
using TreeShares = std::vector<std::vector<LeafNode>>;

/// Returns the nodes of each rank, as defined by `Leaves`.
TreeShares shares_of_ranks(const LeafShares& leaves, int ranks);
/// Returns the nodes of each cluster node, after its ranks have reduced as far as they can.
TreeShares shares_of_nodes(const LeafShares& leaves, const ClusterShape& shape);
/// Returns the largest number of nodes of a participant.
int most_nodes(const TreeShares& shares);

/// Sums in memory, sorted by their leaves.
class TreeSources {
 public:
  void add(const LeafNode& node, const NodeRange& where) { all_.push_back({node, where}); }
  /// The sums below a node of the tree, in order. @pre together they contain its leaves
  struct Ordered {
    std::vector<NodeRange> from;
    std::vector<int> widths;  ///< number of leaves of each sum; empty if all are single leaves
  };
  [[nodiscard]] Ordered below(const LeafNode& node) const;

 private:
  struct Source {
    LeafNode node;
    NodeRange where;
  };
  std::vector<Source> all_;
};

/// All-reduce with messages: the buffer is divided into one part for each participant. All other participants send
/// their contributions to the part; the participant reduces them and sends the sum to all.
/// @param own      range of a node that this participant contributes, of `count` elements
/// @param scratch  elements of the scratch memory that are in use
/// @cost   2(p−1)α + (m+1)(p−1)/p·nβ + (V−1)/p·nγ for m nodes a participant, V in all
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004, section 4.2 (reduce-scatter by
///         pairwise exchange, then all-gather)
Plan leaf_tree_all_reduce(Rank me, const TreeShares& shares, Count count, const std::function<Range(int node)>& own,
                          Count scratch = {});

}  // namespace lockstep::collectives
