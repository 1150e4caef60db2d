// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"
#include "lockstep/base/cluster_shape.hpp"

namespace lockstep::collectives {

/// The algorithm of an all-reduce: each row of all_reduces.def, by messages between all ranks; shared memory, for all
/// ranks on one node; and each row again between nodes whose ranks share memory. Other operations have one algorithm
/// for messages and one for shared memory (operations.hpp).
enum class Algorithm : std::uint8_t {
#define ALL_REDUCE(algorithm, ...) algorithm,
#include "collectives/algorithms/all_reduces.def"
  shared_memory,
#define ALL_REDUCE(algorithm, ...) hierarchical_##algorithm,
#include "collectives/algorithms/all_reduces.def"
};

/// The number of rows of all_reduces.def.
inline constexpr std::size_t all_reduce_count = static_cast<std::size_t>(Algorithm::shared_memory);

/// All algorithms, in the order of their values.
inline constexpr auto all_algorithms = [] {
  std::array<Algorithm, 2 * all_reduce_count + 1> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Algorithm>(i);
  return all;
}();

/// Returns whether ranks of one node access each other's memory.
constexpr bool uses_shared_memory(Algorithm algorithm) { return algorithm >= Algorithm::shared_memory; }

/// Returns the algorithm between nodes of a hierarchical algorithm; any other algorithm itself.
constexpr Algorithm across_nodes(Algorithm algorithm) {
  if (algorithm <= Algorithm::shared_memory) return algorithm;
  return static_cast<Algorithm>(static_cast<std::size_t>(algorithm) - all_reduce_count - 1);
}

/// Returns whether it gives the bits of the canonical order, see expression.hpp.
constexpr bool is_canonical(Algorithm algorithm) { return across_nodes(algorithm) == Algorithm::tree_order; }

/// Returns the name of its row, "shared-memory", or "hierarchical-" and the name of its row.
std::string_view name(Algorithm algorithm);
/// Returns the names of all algorithms, in the order of `all_algorithms`.
std::span<const std::string_view> algorithm_names();
/// The inverse of `name`.
/// @throws Error{invalid_argument} that suggests the nearest name and lists all
Algorithm parse_algorithm(std::string_view text);

// The terms of the closed formulas beside each algorithm: what one block costs alone. `predicted_seconds` extends them
// to blocks and nodes and predicts the time of an operation on a cluster.
//
// If no part of α is wire time, several equal blocks of a ring, halving-doubling or recursive doubling keep every port
// busy from the first message to the last. Blocks in flight together can then hide additions only, so that they cost
// at most their sum, and exactly that for γ = 0.

/// Costs of one rank's ports and adder if all links are alike.
struct Rates {
  double alpha_seconds = 0;
  double beta_seconds_per_byte = 0;
  double gamma_seconds_per_byte = 0;
  double wire_seconds = 0;  ///< part of α for which the message travels and the ports are free
  double peer_seconds = 0;  ///< in shared memory: for each further rank that a rank awaits at the same time
};

/// The cost of exchanges by their distance, the difference of the partners' ranks. Distances below `near_ranks` use
/// `near`, others use `far`, whose link up to `sharing` ranks of a node share equally. Up to half of the ranks of a
/// group that exchanges have partners on other nodes.
struct Links {
  Rates near;
  Rates far;
  Rates folding;       ///< between ranks 2i and 2i + 1
  int near_ranks = 1;  ///< a power of two
  int sharing = 1;
};

/// Returns links whose rates are all equal.
inline Links alike(const Rates& rates) { return {.near = rates, .far = rates, .folding = rates}; }

/// Returns α·messages + β·moved + γ·added, the last two in buffers of `n`.
inline double price(const Rates& rates, Bytes n, double messages, double moved, double added) {
  const auto bytes = static_cast<double>(n.value);
  return messages * rates.alpha_seconds + moved * bytes * rates.beta_seconds_per_byte +
         added * bytes * rates.gamma_seconds_per_byte;
}

/// What an operation costs: messages one after the other, buffers moved and added, and how many of the messages are on
/// the wire at the same time as another one.
struct BlockCost {
  double messages = 0;
  double moved = 0;
  double added = 0;
  double hidden = 0;
};

inline double seconds(const BlockCost& cost, Bytes n, const Rates& rates) {
  return price(rates, n, cost.messages, cost.moved, cost.added) - cost.hidden * rates.wire_seconds;
}

/// Returns how long messages of `share` of the buffer to `others` ranks occupy the port, including the additions if
/// `adds`.
inline double port_seconds(const Rates& rates, Bytes n, double others, double share, bool adds) {
  return price(rates, n, others, others * share, adds ? others * share : 0) - others * rates.wire_seconds;
}

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
