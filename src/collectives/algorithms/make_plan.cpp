// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/make_plan.hpp"

#include "collectives/algorithms/all_reduce.hpp"
#include "collectives/algorithms/leaf_tree.hpp"
#include "collectives/algorithms/node.hpp"

namespace lockstep::collectives {
namespace {

Plan all_reduce_of_leaves(Rank me, const CollectiveDescription& d) {
  return leaf_tree_all_reduce(me, shares_of_ranks(d.leaves, d.ranks), d.count, [&](int node) {
    const bool is_there = node == 0 && d.own.in_place;
    return is_there ? Range{Memory::output, 0, d.count.value} : Range{Memory::input, 0, d.count.value, node};
  });
}

Plan all_reduce_plan(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  if (uses_shared_memory(algorithm))
    return d.reach == Reach::pulled ? pull_all_reduce(me, d, algorithm) : hierarchical_all_reduce(me, d, algorithm);
  if (d.leaves.total() > 0) return all_reduce_of_leaves(me, d);
  return contribute(row_of(algorithm).plan(me, d.ranks, d.count, d.radix), d.own, {Memory::output, 0, d.count.value});
}

}  // namespace

Plan make_plan(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  if (d.kind == CollectiveKind::all_reduce) return all_reduce_plan(me, d, algorithm);
  const OperationRow& row = row_of(d.kind);
  return is_shared(d.kind, algorithm) ? row.shared_plan(me, d) : row.plan(me, d);
}

Expression all_reduce_order(Algorithm algorithm, Expressions& expressions, std::span<const Expression> contributions,
                            Count count, std::int64_t element, const ClusterShape& shape) {
  if (!uses_shared_memory(algorithm) || is_canonical(algorithm))
    return row_of(algorithm).order(expressions, contributions, count, element);
  const ClusterShape nodes = shape.ranks() > 0 ? shape : ClusterShape{std::vector<int>(contributions.size())};
  return hierarchical_all_reduce_order(algorithm, expressions, contributions, count, element, nodes);
}

}  // namespace lockstep::collectives
