// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/plan/plan.hpp"
#include "collectives/plan/plan_builder.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/collective_kind.hpp"
#include "lockstep/base/leaves.hpp"

namespace lockstep::collectives {

/// How the other ranks of a node access a rank's data. Ranks need not agree on direct or staged.
enum class Reach : std::uint8_t {
  direct,  ///< input and output are in memory that all of them can access
  staged,  ///< only the staging area is; data for other ranks are copied into it, and their data out of it
  pulled,  ///< staged, and every rank reduces everything itself, with a single synchronization; on all ranks or none
};

/// A collective operation from the view of one rank. All ranks pass the same values except for `own` and `reach`.
struct CollectiveDescription {
  CollectiveKind kind = CollectiveKind::all_reduce;
  int ranks = 1;
  /// Elements of the buffer, or of each part if each rank has one, or of the longest part if they differ; 0 for a
  /// barrier.
  Count count;
  Rank root;  ///< broadcast, reduce, gather and scatter only
  /// The rank's contribution: exactly one leaf for all_gather, gather, scatter and all_to_all, which is never in place;
  /// unused by broadcast and barrier. For gather and scatter, in place has a meaning at the root only.
  Contribution own;
  int radix = 2;                ///< largest group of halving-doubling and recursive doubling, also between nodes
  ClusterShape shape{};         ///< for algorithms that share memory; empty: all ranks on one node
  Reach reach = Reach::direct;  ///< reach of this rank's data, for algorithms that share memory
  /// Elements of each rank's part, if they may differ. For an all_to_all_v: elements that this rank sends to each rank
  /// (−1: no message in this block), which differ between ranks.
  std::vector<std::int64_t> parts{};
  std::vector<std::int64_t> received{};  ///< all_to_all_v only: elements that come from each rank
  /// all_reduce only: the leaves of all ranks, as in `Leaves`; `own` is this rank's share. Without leaves each rank has
  /// one operand, or as many as `own` has.
  LeafShares leaves{};
};

inline ClusterShape shape_of(const CollectiveDescription& d) {
  return d.shape.ranks() > 0 ? d.shape : ClusterShape{std::vector<int>(static_cast<std::size_t>(d.ranks))};
}

inline Parts parts_of(const CollectiveDescription& d) {
  return d.parts.empty() ? Parts::equal(d.ranks, d.count) : Parts(d.count, d.parts);
}

/// Returns which operands each rank has in shared memory: its leaves, or one.
inline LeafShares operands_of(const CollectiveDescription& d) {
  return d.leaves.total() > 0 ? d.leaves : LeafShares(d.ranks);
}

}  // namespace lockstep::collectives
