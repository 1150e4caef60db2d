// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/operations.hpp"

#include <algorithm>
#include <array>

#include "collectives/algorithms/node.hpp"

namespace lockstep::collectives {
namespace {

constexpr auto operation_rows = [] {
  using enum CollectiveKind;
  return std::array{
      OperationRow{broadcast, "binomial", binomial_broadcast, binomial_broadcast_seconds, node_broadcast,
                   node_broadcast_seconds},
      OperationRow{all_gather, "ring", ring_all_gather, ring_all_gather_seconds, node_all_gather,
                   node_all_gather_seconds},
      OperationRow{reduce_scatter, "ring", ring_reduce_scatter, ring_reduce_scatter_seconds, node_reduce_scatter,
                   node_reduce_scatter_seconds},
      OperationRow{reduce, "binomial", binomial_reduce, binomial_reduce_seconds, node_reduce, node_reduce_seconds},
      OperationRow{all_to_all, "pairwise", pairwise_all_to_all, pairwise_all_to_all_seconds, node_all_to_all,
                   node_all_gather_seconds},
      OperationRow{barrier, "dissemination", dissemination_barrier, dissemination_barrier_seconds, node_barrier,
                   node_barrier_seconds},
      OperationRow{gather, "binomial", binomial_gather, binomial_gather_seconds, node_gather, node_broadcast_seconds},
      OperationRow{scatter, "binomial", binomial_scatter, binomial_gather_seconds, node_scatter,
                   node_broadcast_seconds},
      OperationRow{all_gather_v, "ring", ring_all_gather, ring_all_gather_seconds, node_all_gather,
                   node_all_gather_seconds},
      OperationRow{reduce_scatter_v, "ring", ring_reduce_scatter, ring_reduce_scatter_seconds, node_reduce_scatter,
                   node_reduce_scatter_seconds},
      // A rank knows only its own counts, so the ranks of a node cannot divide the parts of all pairs into the same
      // blocks.
      OperationRow{all_to_all_v, "pairwise", pairwise_all_to_all_v, pairwise_all_to_all_seconds, nullptr, nullptr}};
}();

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

}  // namespace lockstep::collectives
