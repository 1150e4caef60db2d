// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/schedule.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "collectives/algorithms/binomial.hpp"
#include "collectives/algorithms/dissemination.hpp"
#include "collectives/algorithms/double_tree.hpp"
#include "collectives/algorithms/halving_doubling.hpp"
#include "collectives/algorithms/hierarchical.hpp"
#include "collectives/algorithms/node.hpp"
#include "collectives/algorithms/pairwise.hpp"
#include "collectives/algorithms/recursive_doubling.hpp"
#include "collectives/algorithms/ring.hpp"
#include "collectives/algorithms/tree_order.hpp"
#include "collectives/plan/sliced.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

Plan all_reduce(Rank me, int ranks, Count count, Algorithm algorithm, int radix) {
  switch (algorithm) {
    case Algorithm::ring: return ring_all_reduce(me, ranks, count);
    case Algorithm::double_tree: return double_tree_all_reduce(me, ranks, count);
    case Algorithm::halving_doubling: return halving_doubling_all_reduce(me, ranks, count, radix);
    case Algorithm::tree_order: return tree_order_all_reduce(me, ranks, count);
    default: return recursive_doubling_all_reduce(me, ranks, count, radix);
  }
}

/// @pre with_slices(algorithm) == algorithm
SlicedAllReduce in_halves(Rank me, int ranks, Count count, Algorithm algorithm, int radix) {
  switch (algorithm) {
    case Algorithm::halving_doubling: return halving_doubling_in_halves(me, ranks, count, radix);
    case Algorithm::tree_order: return tree_order_in_halves(me, ranks, count);
    default: return ring_in_halves(me, ranks, count);
  }
}

/// A hierarchy is of all-reduces; other operations send messages there.
bool is_shared(CollectiveKind kind, Algorithm algorithm) {
  return uses_shared_memory(algorithm) && (algorithm == Algorithm::shared_memory || is_all_reduce(kind));
}

ClusterShape shape_of(const CollectiveDescription& d) {
  return d.shape.ranks() > 0 ? d.shape : ClusterShape{std::vector<int>(static_cast<std::size_t>(d.ranks))};
}

NodePart node_part(const CollectiveDescription& d, Algorithm algorithm) {
  return {d.reach, d.own.in_place, is_canonical(algorithm) ? AdditionOrder::canonical : AdditionOrder::left_to_right};
}

Plan shared_reduce_then(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  return hierarchical_reduce_then(
      me, shape_of(d), d.count,
      [&](Rank node, int nodes, Count count) {
        return reduce_then(in_halves(node, nodes, count, across_nodes(algorithm), d.radix), count, d.own.in_place);
      },
      node_part(d, algorithm));
}

/// The plan of a node, or of a hierarchy of them.
Plan shared_plan(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  switch (d.kind) {
    case CollectiveKind::reduce_then: return shared_reduce_then(me, d, algorithm);
    case CollectiveKind::all_reduce:
      if (d.reach == Reach::pulled) return pull_all_reduce(me, d.ranks, d.count, node_part(d, algorithm));
      return hierarchical_all_reduce(
          me, shape_of(d), d.count,
          [&](Rank node, int nodes, Count count) {
            return all_reduce(node, nodes, count, across_nodes(algorithm), d.radix);
          },
          node_part(d, algorithm));
    case CollectiveKind::broadcast: return node_broadcast(me, d.ranks, d.count, d.root, d.reach);
    case CollectiveKind::all_gather: return node_all_gather(me, d.ranks, d.count, d.reach, d.own.in_place);
    case CollectiveKind::reduce_scatter: return node_reduce_scatter(me, d.ranks, d.count, d.reach, d.own.in_place);
    case CollectiveKind::reduce: return node_reduce(me, d.ranks, d.count, d.root, d.reach, d.own.in_place);
    case CollectiveKind::all_to_all: return node_all_to_all(me, d.ranks, d.count, d.reach);
    case CollectiveKind::barrier: return node_barrier(me, d.ranks);
    case CollectiveKind::send:
    case CollectiveKind::recv: break;
  }
  return {};
}

void require(bool condition, const CollectiveDescription& d, const std::string& what) {
  if (!condition) throw Error(ErrorCode::invalid_argument, what, {.operation = std::string(name(d.kind))});
}

/// Elements (of the buffer, or of each part) of a block in shared memory.
Count shared_block_count(const CollectiveDescription& d, Algorithm algorithm, Count segment, Count staging) {
  const bool stages_parts = d.kind == CollectiveKind::reduce_scatter || d.kind == CollectiveKind::all_to_all;
  const std::int64_t parts = stages_parts ? d.ranks : 1;
  const Count fits{staging.value / parts};
  require(fits.value > 0, d,
          "the staging area has " + std::to_string(staging.value) + " elements, too few for " + std::to_string(parts) +
              " parts");
  const ClusterShape shape = shape_of(d);
  if (shape.nodes() == 1) return fits;
  const Count across = block_count(d.kind, across_nodes(algorithm), shape.nodes(), segment);
  return across.value < fits.value / lanes(shape) ? Count{lanes(shape) * across.value} : fits;
}

void check(Rank me, const CollectiveDescription& d, Algorithm algorithm, Count segment) {
  const auto is_rank = [&](Rank r) { return 0 <= r.value && r.value < d.ranks; };
  const std::string range = "; it must lie between 0 and " + std::to_string(d.ranks - 1);
  require(d.ranks >= 1, d, "the number of ranks is " + std::to_string(d.ranks) + "; it must be at least 1");
  require(is_rank(me), d, "the rank is " + std::to_string(me.value) + range);
  const bool has_root = d.kind == CollectiveKind::broadcast || d.kind == CollectiveKind::reduce;
  require(!has_root || is_rank(d.root), d, "the root is " + std::to_string(d.root.value) + range);
  require(d.count.value >= 0, d, "the count is " + std::to_string(d.count.value) + "; it must not be negative");
  require(d.kind != CollectiveKind::barrier || d.count.value == 0, d,
          "the count is " + std::to_string(d.count.value) + "; a barrier has no elements");
  require(segment.value >= 1, d, "the segment has " + std::to_string(segment.value) + " elements; give at least 1");
  require(d.radix >= 2, d, "the radix is " + std::to_string(d.radix) + "; it must be at least 2");
  require(d.own.leaves >= 0, d,
          "the number of leaves is " + std::to_string(d.own.leaves) + "; it must not be negative");
  const bool takes_one_leaf = d.kind == CollectiveKind::all_gather || d.kind == CollectiveKind::all_to_all;
  require((!takes_one_leaf && !uses_shared_memory(algorithm)) || d.own.leaves == 1, d,
          "a rank brings one leaf to an " + std::string(name(takes_one_leaf ? d.kind : CollectiveKind::all_gather)) +
              " or to shared memory, not " + std::to_string(d.own.leaves));
  require(d.kind != CollectiveKind::all_to_all || !d.own.in_place, d, "an all_to_all cannot be done in place");
  require(d.shape.ranks() == 0 || d.shape.ranks() == d.ranks, d,
          "the shape is of " + std::to_string(d.shape.ranks()) + " ranks, not " + std::to_string(d.ranks));
  require(d.kind != CollectiveKind::reduce_then || d.reach != Reach::pulled, d,
          "a rank that pulls makes all sums itself; a function is applied to slices of them");
  require(algorithm != Algorithm::hierarchical_tree_order || keeps_canonical_order(shape_of(d)), d,
          "these nodes' ranks are no subtrees of the canonical tree; tree-order then sends messages");
  const bool needs_one_node = algorithm == Algorithm::shared_memory || d.reach == Reach::pulled;
  require(!needs_one_node || d.shape.nodes() <= 1, d,
          "ranks of " + std::to_string(d.shape.nodes()) + " nodes share no memory");
}

}  // namespace

Schedule::Schedule(Blocks blocks, std::int64_t size, std::int64_t part_stride, Plan full, Plan tail)
    : blocks_(blocks),
      size_(size),
      full_count_(size > 0 ? blocks[0].count : 0),
      part_stride_(part_stride),
      full_(std::move(full)),
      tail_(std::move(tail)) {}

BlockView Schedule::view(std::int64_t index) const {
  const Block b = block(index);
  return {std::max<std::int64_t>(b.count, 1), part_stride_, b.offset};
}

Algorithm with_slices(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::double_tree: return Algorithm::ring;
    case Algorithm::recursive_doubling: return Algorithm::halving_doubling;
    case Algorithm::hierarchical_double_tree: return Algorithm::hierarchical_ring;
    case Algorithm::hierarchical_recursive_doubling: return Algorithm::hierarchical_halving_doubling;
    default: return algorithm;
  }
}

Plan make_plan(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  if (d.kind == CollectiveKind::reduce_then) algorithm = with_slices(algorithm);
  if (is_shared(d.kind, algorithm)) return shared_plan(me, d, algorithm);
  switch (d.kind) {
    case CollectiveKind::reduce_then:
      return contribute(reduce_then(in_halves(me, d.ranks, d.count, algorithm, d.radix), d.count, d.own.in_place),
                        d.own, sums_of(d.count, d.own.in_place));
    case CollectiveKind::all_reduce:
      return contribute(all_reduce(me, d.ranks, d.count, algorithm, d.radix), d.own,
                        {Memory::output, 0, d.count.value});
    case CollectiveKind::broadcast: return binomial_broadcast(me, d.ranks, d.count, d.root);
    case CollectiveKind::all_gather:
      return contribute(ring_all_gather(me, d.ranks, d.count), d.own,
                        {Memory::output, me.value * d.count.value, d.count.value});
    case CollectiveKind::reduce_scatter: return ring_reduce_scatter(me, d.ranks, d.count, d.own);
    case CollectiveKind::reduce: return binomial_reduce(me, d.ranks, d.count, d.root, d.own);
    case CollectiveKind::all_to_all: return pairwise_all_to_all(me, d.ranks, d.count);
    case CollectiveKind::barrier: return dissemination_barrier(me, d.ranks);
    case CollectiveKind::send:
    case CollectiveKind::recv: break;
  }
  return {};
}

Expression all_reduce_order(Algorithm algorithm, Expressions& expressions, std::span<const Expression> contributions,
                            Count count, std::int64_t element, const ClusterShape& shape) {
  switch (algorithm) {
    case Algorithm::ring: return ring_all_reduce_order(expressions, contributions, count, element);
    case Algorithm::double_tree: return double_tree_all_reduce_order(expressions, contributions, count, element);
    case Algorithm::halving_doubling:
      return halving_doubling_all_reduce_order(expressions, contributions, count, element);
    case Algorithm::recursive_doubling:
      return recursive_doubling_all_reduce_order(expressions, contributions, count, element);
    case Algorithm::tree_order:
    case Algorithm::hierarchical_tree_order:
      return tree_order_all_reduce_order(expressions, contributions, count, element);
    default: break;
  }
  const ClusterShape nodes = shape.ranks() > 0 ? shape : ClusterShape{std::vector<int>(contributions.size())};
  return hierarchical_all_reduce_order(
      expressions, contributions, nodes, count, element,
      [&](std::span<const Expression> sums, Count slice, std::int64_t at) {
        return sums.size() == 1 ? sums[0] : all_reduce_order(across_nodes(algorithm), expressions, sums, slice, at);
      });
}

Schedule make_schedule(Rank me, const CollectiveDescription& description, Algorithm algorithm, Count segment,
                       Count staging) {
  check(me, description, algorithm, segment);
  if (description.kind == CollectiveKind::reduce_then) algorithm = with_slices(algorithm);
  const std::int64_t total = description.count.value;
  const auto plan_of = [&](Count count) {
    CollectiveDescription block = description;
    block.count = count;
    return make_plan(me, block, algorithm);
  };
  const Count block_size = is_shared(description.kind, algorithm)
                               ? shared_block_count(description, algorithm, segment, staging)
                               : block_count(description.kind, algorithm, description.ranks, segment);
  const Blocks blocks(description.count, block_size);
  const std::int64_t size = description.kind == CollectiveKind::barrier ? 1 : blocks.size();
  const std::int64_t full = size > 0 ? blocks[0].count : 0;
  const std::int64_t last = size > 0 ? blocks[size - 1].count : 0;
  return {blocks, size, total, plan_of({full}), last < full ? plan_of({last}) : Plan{}};
}

}  // namespace lockstep::collectives
