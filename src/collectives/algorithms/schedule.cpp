// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/schedule.hpp"

#include "collectives/algorithms/by_messages.hpp"
#include "collectives/algorithms/leaf_tree.hpp"
#include "collectives/algorithms/node.hpp"

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

NodePart node_part(const CollectiveDescription& d, Algorithm algorithm) {
  return {d.reach, d.own.in_place, is_canonical(algorithm) ? AdditionOrder::canonical : AdditionOrder::left_to_right,
          d.leaves};
}

Plan all_reduce_of_leaves(Rank me, const CollectiveDescription& d) {
  return leaf_tree_all_reduce(me, shares_of_ranks(d.leaves, d.ranks), d.count, [&](int node) {
    const bool is_there = node == 0 && d.own.in_place;
    return is_there ? Range{Memory::output, 0, d.count.value} : Range{Memory::input, 0, d.count.value, node};
  });
}

/// Returns the plan for the ranks of one node, or for a hierarchy of nodes.
Plan shared_plan(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  switch (d.kind) {
    case CollectiveKind::all_reduce:
      if (d.reach == Reach::pulled) return pull_all_reduce(me, d.ranks, d.count, node_part(d, algorithm));
      return hierarchical_all_reduce(
          me, shape_of(d), d.count,
          [&](Rank node, int nodes, Count count) {
            return all_reduce(node, nodes, count, across_nodes(algorithm), d.radix);
          },
          node_part(d, algorithm));
    case CollectiveKind::broadcast: return node_broadcast(me, d.ranks, d.count, d.root, d.reach);
    case CollectiveKind::all_gather_v:
    case CollectiveKind::all_gather: return node_all_gather(me, parts_of(d), d.reach, d.own.in_place);
    case CollectiveKind::reduce_scatter_v:
    case CollectiveKind::reduce_scatter: return node_reduce_scatter(me, parts_of(d), d.reach, d.own.in_place);
    case CollectiveKind::reduce: return node_reduce(me, d.ranks, d.count, d.root, d.reach, d.own.in_place);
    case CollectiveKind::gather: return node_gather(me, d.ranks, d.count, d.root, d.reach, d.own.in_place);
    case CollectiveKind::scatter: return node_scatter(me, d.ranks, d.count, d.root, d.reach, d.own.in_place);
    case CollectiveKind::all_to_all: return node_all_to_all(me, d.ranks, d.count, d.reach);
    case CollectiveKind::barrier: return node_barrier(me, d.ranks);
    case CollectiveKind::all_to_all_v:  // uses messages
    case CollectiveKind::send:
    case CollectiveKind::recv: break;
  }
  return {};
}

}  // namespace

std::size_t Schedule::stretch_of(std::int64_t block) const {
  std::size_t number = 0;
  while (block >= stretches_[number].end) ++number;
  return number;
}

Block Schedule::block(std::int64_t index) const {
  const BlockView at = view(index);
  return {at.offset, at.part_count};
}

BlockView Schedule::view(std::int64_t block) const {
  const std::size_t number = stretch_of(block);
  const Stretch& stretch = stretches_[number];
  if (part_stride_) return {stretch.part_count, part_stride_->value, block * step_.value};
  const std::int64_t first = number == 0 ? 0 : stretches_[number - 1].end;
  return {stretch.part_count, 0, 0, &stretch.table, block - first};
}

Plan make_plan(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  if (is_shared(d.kind, algorithm)) return shared_plan(me, d, algorithm);
  switch (d.kind) {
    case CollectiveKind::all_reduce:
      if (d.leaves.total() > 0) return all_reduce_of_leaves(me, d);
      return contribute(all_reduce(me, d.ranks, d.count, algorithm, d.radix), d.own,
                        {Memory::output, 0, d.count.value});
    case CollectiveKind::broadcast: return binomial_broadcast(me, d.ranks, d.count, d.root);
    case CollectiveKind::all_gather_v:
    case CollectiveKind::all_gather:
      return contribute(ring_all_gather(me, parts_of(d)), d.own, parts_of(d).of(me.value, Memory::output));
    case CollectiveKind::reduce_scatter_v:
    case CollectiveKind::reduce_scatter: return ring_reduce_scatter(me, parts_of(d), d.own);
    case CollectiveKind::reduce: return binomial_reduce(me, d.ranks, d.count, d.root, d.own);
    case CollectiveKind::gather: return binomial_gather(me, d.ranks, d.count, d.root, d.own.in_place);
    case CollectiveKind::scatter: return binomial_scatter(me, d.ranks, d.count, d.root, d.own.in_place);
    case CollectiveKind::all_to_all: return pairwise_all_to_all(me, d.ranks, d.count);
    case CollectiveKind::all_to_all_v: return pairwise_all_to_all_v(me, parts_of(d), Parts(d.count, d.received));
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

}  // namespace lockstep::collectives
