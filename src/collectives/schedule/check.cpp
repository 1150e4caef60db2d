// SPDX-License-Identifier: Apache-2.0

#include "collectives/algorithms/all_reduce.hpp"
#include "collectives/schedule/schedule.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

void require(bool condition, const CollectiveDescription& d, const std::string& what) {
  if (!condition) throw Error(ErrorCode::invalid_argument, what, {.operation = std::string(name(d.kind))});
}

/// Returns whether a rank contributes exactly one leaf, because nothing is reduced.
bool takes_one_leaf(CollectiveKind kind) {
  return !is_reduction(kind) && kind != CollectiveKind::broadcast && kind != CollectiveKind::barrier;
}

void check_parts(const CollectiveDescription& d, const std::vector<std::int64_t>& parts) {
  require(parts.size() == static_cast<std::size_t>(d.ranks), d,
          "there are counts of " + std::to_string(parts.size()) + " parts for " + std::to_string(d.ranks) + " ranks");
  for (const std::int64_t part : parts)
    require(0 <= part && part <= d.count.value, d,
            "a part has " + std::to_string(part) + " elements, the longest " + std::to_string(d.count.value));
}

void check_leaves(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  require(d.kind == CollectiveKind::all_reduce && is_canonical(algorithm), d,
          "the leaves of a tree are added up by an all_reduce in tree order only");
  const int total = d.leaves.total();
  require(total >= d.ranks, d, std::to_string(total) + " leaves are too few for " + std::to_string(d.ranks) + " ranks");
  require(d.leaves.ranks() == 0 || d.leaves.ranks() == d.ranks, d,
          "the leaves are shared among " + std::to_string(d.leaves.ranks()) + " ranks, not " + std::to_string(d.ranks));
  const int own = count_tree_nodes(total, d.leaves.of(me.value, d.ranks));
  require(d.own.leaves == own, d,
          "this rank brings " + std::to_string(d.own.leaves) + " sums; its share of " + std::to_string(total) +
              " leaves are " + std::to_string(own));
}

}  // namespace

void check(Rank me, const CollectiveDescription& d, Algorithm algorithm, Count segment) {
  const auto is_rank = [&](Rank r) { return 0 <= r.value && r.value < d.ranks; };
  const std::string range = "; it must lie between 0 and " + std::to_string(d.ranks - 1);
  require(d.ranks >= 1, d, "the number of ranks is " + std::to_string(d.ranks) + "; it must be at least 1");
  require(is_rank(me), d, "the rank is " + std::to_string(me.value) + range);
  require(!has_root(d.kind) || is_rank(d.root), d, "the root is " + std::to_string(d.root.value) + range);
  require(d.count >= 0, d, "the count is " + std::to_string(d.count.value) + "; it must not be negative");
  require(d.kind != CollectiveKind::barrier || d.count == 0, d,
          "the count is " + std::to_string(d.count.value) + "; a barrier has no elements");
  require(segment >= 1, d, "the segment has " + std::to_string(segment.value) + " elements; give at least 1");
  require(d.radix >= 2, d, "the radix is " + std::to_string(d.radix) + "; it must be at least 2");
  require(d.own.leaves >= 0, d,
          "the number of leaves is " + std::to_string(d.own.leaves) + "; it must not be negative");
  if (d.leaves.total() != 0) check_leaves(me, d, algorithm);
  require((!takes_one_leaf(d.kind) && !uses_shared_memory(algorithm)) || d.own.leaves == 1 || d.leaves.total() > 0, d,
          "a rank brings one leaf to " +
              std::string(name(takes_one_leaf(d.kind) ? d.kind : CollectiveKind::all_gather)) +
              " or to shared memory, not " + std::to_string(d.own.leaves));
  require(!is_all_to_all(d.kind) || !d.own.in_place, d, "an all_to_all cannot be done in place");
  if (has_part_counts(d.kind)) check_parts(d, d.parts);
  if (d.kind == CollectiveKind::all_to_all_v) check_parts(d, d.received);
  require(d.shape.ranks() == 0 || d.shape.ranks() == d.ranks, d,
          "the shape is of " + std::to_string(d.shape.ranks()) + " ranks, not " + std::to_string(d.ranks));
  require(algorithm != Algorithm::hierarchical_tree_order || d.leaves.total() > 0 || keeps_canonical_order(shape_of(d)),
          d, "these nodes' ranks are no subtrees of the canonical tree; tree-order then sends messages");
  const bool needs_one_node = algorithm == Algorithm::shared_memory || d.reach == Reach::pulled;
  require(!needs_one_node || d.shape.nodes() <= 1, d,
          "ranks of " + std::to_string(d.shape.nodes()) + " nodes share no memory");
}

}  // namespace lockstep::collectives
