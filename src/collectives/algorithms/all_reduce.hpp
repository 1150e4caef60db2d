// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "collectives/algorithms/algorithm.hpp"
#include "collectives/algorithms/cost.hpp"
#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"
#include "lockstep/base/cluster_shape.hpp"

namespace lockstep::collectives {

/// What may select an algorithm. Each value includes the one before.
enum class SelectedBy : std::uint8_t {
  name,        ///< only a user who names it, because its purpose is not speed
  tuning,      ///< also a tuning table, into which `comm-bench --tune` writes what is fastest
  cost_model,  ///< also the default choice for sizes without a table entry
};

/// A row of the table of all-reduces by messages, all_reduces.def.
struct AllReduceRow {
  std::string_view name;
  /// Returns one rank's plan for a block of `count` elements, which need not be divisible, in the output.
  /// @param radix  at least 2; unused without `has_radix`
  /// @pre    0 ≤ me < ranks; the output holds the rank's contribution
  /// @throws std::bad_alloc only; nothing is communicated
  Plan (*plan)(Rank me, int ranks, Count count, int radix);
  /// Returns the order in which the plans add one element of a block of `count` elements.
  /// @param contributions  one for each rank
  Expression (*order)(Expressions& expressions, std::span<const Expression> contributions, Count count,
                      std::int64_t element);
  /// Returns the closed formula for the seconds of one block alone. Tests compare it with the simulator.
  double (*seconds)(int ranks, Bytes buffer, const Links& links, int radix);
  /// Returns the number of segments in a block, so that its messages have about one segment.
  int (*segments)(int ranks);
  /// Whether `radix` limits the number of ranks that exchange in one round.
  bool has_radix = false;
  /// Whether ranks pass the buffer on to others with near numbers, as in rings and trees, so that a rank has the link
  /// of its node for itself. Otherwise all ranks of a node exchange with other nodes at the same time.
  bool to_neighbors = false;
  /// The most that a rank's port sends in a block, if it is idle in between; without a value it is always busy.
  struct Port {
    double messages = 0;
    double buffers = 0;
  };
  Port port{};
  SelectedBy selected_by = SelectedBy::name;
};

/// Returns the row of an algorithm, or of that between the nodes of a hierarchical one. @pre it is not shared_memory
const AllReduceRow& row_of(Algorithm algorithm);

/// Returns whether the ranks of each node form a subtree of the canonical tree, so that nodes can reduce independently:
/// all ranks on one node, or nodes of 2^k consecutive ranks each, of which the last may have fewer.
bool keeps_canonical_order(const ClusterShape& shape);

// The functions of the rows.
#define ALL_REDUCE(algorithm, ...)                                                                             \
  Plan algorithm##_all_reduce(Rank me, int ranks, Count count, int radix);                                     \
  Expression algorithm##_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions, \
                                          Count count, std::int64_t element);                                  \
  double algorithm##_all_reduce_seconds(int ranks, Bytes buffer, const Links& links, int radix);
#include "collectives/algorithms/all_reduces.def"

}  // namespace lockstep::collectives
