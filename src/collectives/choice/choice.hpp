// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/algorithms/all_reduce.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/collective_kind.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::collectives {

/// The properties of a cluster that a selection depends on: numbers of ranks and nodes, not the placement of each rank.
/// All four are ≥ 1.
struct ShapeSummary {
  int nodes = 1;
  int ranks = 1;
  int min_ranks_per_node = 1;
  int max_ranks_per_node = 1;
  friend constexpr auto operator<=>(const ShapeSummary&, const ShapeSummary&) = default;
};

/// @pre there is a rank, and one on each node
ShapeSummary summarize(const ClusterShape& shape);
/// Whether a placement with these numbers exists.
bool is_possible(const ShapeSummary& shape);
/// "2 ranks on 1 node", "4 ranks on 2 nodes", "5 ranks on 2 nodes, 2 to 3 on each".
std::string describe(const ShapeSummary& shape);

/// An algorithm with its parameters.
struct Choice {
  /// Operations other than all_reduce only distinguish shared_memory from all others, which use messages.
  Algorithm algorithm = Algorithm::ring;
  /// Longest message. The default stays in the cache and is just below 64 KiB, from which on TCP transports of MPI use
  /// a monitor.
  Bytes segment{63 * 1024};
  int blocks_in_flight = 4;
  int radix = 2;  ///< largest number of ranks that exchange in one round, for algorithms that have one
  friend bool operator==(const Choice&, const Choice&) = default;
};

/// The choice with no more blocks in flight than are useful. In shared memory one block is written while another is
/// read, and more would only occupy the cache.
Choice with_useful_blocks(Choice choice, const ShapeSummary& shape);

/// Whether the algorithm can run on a cluster of this shape.
bool applicable(Algorithm algorithm, const ShapeSummary& shape);

/// @throws Error{invalid_argument} that names algorithm and shape if it is not applicable
void require_applicable(Algorithm algorithm, const ShapeSummary& shape);

/// The algorithms that may be selected for speed: the applicable ones whose row permits it, without those that equal a
/// simpler one on this shape. At least one sends messages. Of equally fast ones the first is chosen.
/// @param by  cost_model or tuning
std::vector<Algorithm> candidates(CollectiveKind kind, const ShapeSummary& shape,
                                  SelectedBy by = SelectedBy::cost_model);

/// The radix as text: "-" for algorithms without one.
std::string radix_text(CollectiveKind kind, const Choice& choice);
/// The radices that make a difference on this shape, ascending: the powers of two up to the number of ranks that
/// exchange, and at most 32; 2 for algorithms without a radix.
std::vector<int> useful_radices(CollectiveKind kind, Algorithm algorithm, const ShapeSummary& shape);

/// The name of the algorithm of an operation: that of the all-reduce; "shared-memory"; or the name in the operation's
/// row, such as "binomial".
std::string_view algorithm_name(CollectiveKind kind, Algorithm algorithm);
/// The names of all algorithms of an operation.
std::vector<std::string_view> algorithm_names(CollectiveKind kind);
/// The inverse of algorithm_name. @throws Error{invalid_argument} that suggests the nearest name
Algorithm parse_algorithm(CollectiveKind kind, std::string_view text);

/// The inverse of `name(operation)`. @throws Error{invalid_argument} that suggests the nearest name
CollectiveKind parse_kind(std::string_view text);

}  // namespace lockstep::collectives
