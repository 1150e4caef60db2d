// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/collective_kind.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/collectives/algorithms/algorithm.hpp"

namespace lockstep::collectives {

/// What a selection depends on of a cluster: how many ranks and nodes, not which rank is where. All four are ≥ 1.
struct ShapeSummary {
  int nodes = 1;
  int ranks = 1;
  int min_ranks_per_node = 1;
  int max_ranks_per_node = 1;
  friend constexpr auto operator<=>(const ShapeSummary&, const ShapeSummary&) = default;
};

/// @pre there is a rank, and one on each node
ShapeSummary summarize(const ClusterShape& shape);
/// Whether ranks can be placed so.
bool is_possible(const ShapeSummary& shape);
/// "2 ranks on 1 node", "4 ranks on 2 nodes", "5 ranks on 2 nodes, 2 to 3 on each".
std::string describe(const ShapeSummary& shape);

/// A way to run an operation.
struct Choice {
  /// Operations other than all_reduce only distinguish shared_memory from all others, which run by messages.
  Algorithm algorithm = Algorithm::ring;
  /// Longest message: stays in the cache, and is just below the 64 KiB from which on TCP transports of MPI ask the
  /// receiver before they send.
  Bytes segment{63 * 1024};
  int blocks_in_flight = 4;
  int radix = 2;  ///< of halving-doubling and recursive doubling: how many ranks exchange in one round, at most
  friend bool operator==(const Choice&, const Choice&) = default;
};

/// The choice with no more blocks in flight than are of use: through shared memory one is written while another is
/// read, and more would only take more of the cache.
Choice with_useful_blocks(Choice choice, const ShapeSummary& shape);

/// Whether ranks that are placed so can run the algorithm.
bool applicable(Algorithm algorithm, const ShapeSummary& shape);

/// @throws Error{invalid_argument} that names algorithm and shape unless it is applicable
void require_applicable(Algorithm algorithm, const ShapeSummary& shape);

/// What may be chosen for the sake of speed: the applicable algorithms but those that promise something else than speed
/// and are only ever asked for by name, and those that here do the same as a simpler one. At least one sends messages.
std::vector<Algorithm> candidates(CollectiveKind kind, const ShapeSummary& shape);

/// The radix for a table that people read: "-" where the algorithm has none, which is all but halving-doubling and
/// recursive doubling, also between nodes.
std::string radix_text(CollectiveKind kind, const Choice& choice);
/// The radices that make a difference there: the powers of two up to how many ranks exchange, but no more than 32; 2
/// for what has none. Ascending.
std::vector<int> useful_radices(CollectiveKind kind, Algorithm algorithm, const ShapeSummary& shape);

/// What runs the operation, by its name: an all-reduce's algorithm; "shared-memory"; else the one way there is to run
/// the operation by messages: "binomial", "ring", "pairwise", "dissemination".
std::string_view algorithm_name(CollectiveKind kind, Algorithm algorithm);
/// The opposite. @throws Error{invalid_argument} that suggests the nearest name
Algorithm parse_algorithm(CollectiveKind kind, std::string_view text);

/// The opposite of `name(operation)`. @throws Error{invalid_argument} that suggests the nearest name
CollectiveKind parse_kind(std::string_view text);

}  // namespace lockstep::collectives
