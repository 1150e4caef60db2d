// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/operations.hpp"

#include <algorithm>
#include <array>

#include "collectives/algorithms/by_cache.hpp"
#include "collectives/algorithms/leaf_tree.hpp"
#include "collectives/algorithms/node.hpp"
#include "collectives/plan/partition.hpp"

namespace lockstep::collectives {
namespace {

constexpr double tree_rounds(int ranks) { return ceil_log2(ranks); }
constexpr double other_ranks(int ranks) { return ranks - 1.0; }

constexpr BlockCost signals(int ranks) { return {tree_rounds(ranks)}; }
constexpr BlockCost tree(int ranks) { return {tree_rounds(ranks), tree_rounds(ranks)}; }
constexpr BlockCost tree_of_sums(int ranks) { return {tree_rounds(ranks), tree_rounds(ranks), tree_rounds(ranks)}; }
constexpr BlockCost tree_of_parts(int ranks) { return {tree_rounds(ranks), other_ranks(ranks)}; }
constexpr BlockCost ring_of_parts(int ranks) { return {other_ranks(ranks), other_ranks(ranks)}; }
constexpr BlockCost ring_of_sums(int ranks) { return {other_ranks(ranks), other_ranks(ranks), other_ranks(ranks)}; }
/// All messages are on the wire at the same time.
constexpr BlockCost pairs(int ranks) {
  return {other_ranks(ranks), other_ranks(ranks), 0, std::max(other_ranks(ranks) - 1, 0.0)};
}
constexpr BlockCost chain_of_sums(int ranks) { return ring_of_sums(ranks); }
/// The last rank passes nothing on, so it adds nothing.
constexpr BlockCost chain_of_sums_before(int ranks) {
  return {other_ranks(ranks), other_ranks(ranks), std::max(other_ranks(ranks) - 1, 0.0)};
}
constexpr BlockCost node_sums_before(int ranks) {
  return {2, other_ranks(ranks), std::max(other_ranks(ranks) - 1, 0.0)};
}
constexpr BlockCost node_signal(int /*ranks*/) { return {1}; }
constexpr BlockCost node_copy(int /*ranks*/) { return {2, 1}; }
constexpr BlockCost node_slices(int ranks) { return {2, 1, other_ranks(ranks) / ranks}; }
constexpr BlockCost node_parts(int ranks) { return {2, other_ranks(ranks)}; }
constexpr BlockCost node_sums(int ranks) { return {2, other_ranks(ranks), other_ranks(ranks)}; }

constexpr auto operation_rows = [] {
  using enum CollectiveKind;
  return std::array{
      OperationRow{broadcast, "binomial", binomial_broadcast, tree, node_broadcast, node_copy},
      OperationRow{all_gather, "ring", ring_all_gather, ring_of_parts, node_all_gather, node_parts},
      OperationRow{reduce_scatter, "ring", ring_reduce_scatter, ring_of_sums, node_reduce_scatter, node_sums},
      OperationRow{reduce, "binomial", binomial_reduce, tree_of_sums, node_reduce, node_slices},
      OperationRow{all_to_all, "pairwise", pairwise_all_to_all, pairs, node_all_to_all, node_parts},
      OperationRow{barrier, "dissemination", dissemination_barrier, signals, node_barrier, node_signal},
      OperationRow{gather, "binomial", binomial_gather, tree_of_parts, node_gather, node_copy},
      OperationRow{scatter, "binomial", binomial_scatter, tree_of_parts, node_scatter, node_copy},
      OperationRow{all_gather_v, "ring", ring_all_gather, ring_of_parts, node_all_gather, node_parts},
      OperationRow{reduce_scatter_v, "ring", ring_reduce_scatter, ring_of_sums, node_reduce_scatter, node_sums},
      // A rank knows only its own counts, so the ranks of a node cannot divide the parts of all pairs into the same
      // blocks.
      OperationRow{all_to_all_v, "pairwise", pairwise_all_to_all_v, pairs, nullptr, nullptr},
      OperationRow{scan, "chain", chain_scan, chain_of_sums, node_scan, node_sums},
      OperationRow{exclusive_scan, "chain", chain_scan, chain_of_sums_before, node_scan, node_sums_before}};
}();

Plan all_reduce_of_leaves(Rank me, const CollectiveDescription& d) {
  return leaf_tree_all_reduce(me, shares_of_ranks(d.leaves, d.ranks), d.count, [&](int node) {
    const bool is_there = node == 0 && d.own.in_place;
    return is_there ? Range{Memory::output, 0, d.count.value} : Range{Memory::input, 0, d.count.value, node};
  });
}

Plan all_reduce_plan(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  if (uses_shared_memory(algorithm)) {
    if (adds_by_cache(d, algorithm)) return all_reduce_by_cache(me, d, algorithm);
    return d.reach == Reach::pulled ? pull_all_reduce(me, d, algorithm) : hierarchical_all_reduce(me, d, algorithm);
  }
  if (d.leaves.total() > 0) return all_reduce_of_leaves(me, d);
  return contribute(row_of(algorithm).plan(me, d.ranks, d.count, d.radix), d.own, {Memory::output, 0, d.count.value});
}

}  // namespace

const OperationRow& row_of(CollectiveKind kind) {
  return *std::find_if(operation_rows.begin(), operation_rows.end(),
                       [kind](const OperationRow& row) { return row.kind == kind; });
}

std::span<const CollectiveKind> planned_kinds() {
  static constexpr auto kinds = [] {
    std::array<CollectiveKind, operation_rows.size() + 1> all{CollectiveKind::all_reduce};
    std::transform(operation_rows.begin(), operation_rows.end(), all.begin() + 1,
                   [](const OperationRow& row) { return row.kind; });
    return all;
  }();
  return kinds;
}

Plan make_plan(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  if (d.kind == CollectiveKind::all_reduce) return all_reduce_plan(me, d, algorithm);
  const OperationRow& row = row_of(d.kind);
  return is_shared(d.kind, algorithm) ? row.shared_plan(me, d) : row.plan(me, d);
}

Expression all_reduce_order(Algorithm algorithm, Expressions& expressions, std::span<const Expression> contributions,
                            Count count, std::int64_t element, const ClusterShape& shape, int ranks_per_cache) {
  if (!uses_shared_memory(algorithm) || is_canonical(algorithm))
    return row_of(algorithm).order(expressions, contributions, count, element);
  const ClusterShape nodes = shape.ranks() > 0 ? shape : ClusterShape{std::vector<int>(contributions.size())};
  const CollectiveDescription d{
      .ranks = nodes.ranks(), .count = count, .shape = nodes, .ranks_per_cache = ranks_per_cache};
  if (adds_by_cache(d, algorithm)) return by_cache_order(d, algorithm, expressions, contributions, element);
  return hierarchical_all_reduce_order(algorithm, expressions, contributions, count, element, nodes);
}

}  // namespace lockstep::collectives
