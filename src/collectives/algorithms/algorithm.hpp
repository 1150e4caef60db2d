// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::collectives {

/// The algorithm of an all-reduce. The other operations have one algorithm for messages and one for shared memory.
enum class Algorithm : std::uint8_t {
  ring,
  double_tree,
  halving_doubling,
  recursive_doubling,
  tree_order,     ///< adds in the canonical order, see expression.hpp
  shared_memory,  ///< all ranks on one node; all operations
  hierarchical_ring,
  hierarchical_double_tree,
  hierarchical_halving_doubling,
  hierarchical_recursive_doubling,
  hierarchical_tree_order,  ///< also on one node; only where `keeps_canonical_order`, see by_messages.hpp
};

/// Whether ranks of one node access each other's memory.
bool uses_shared_memory(Algorithm algorithm);
/// The algorithm between nodes of a hierarchical algorithm; any other algorithm itself.
Algorithm across_nodes(Algorithm algorithm);

/// Whether it gives the bits of the canonical order, see expression.hpp.
bool is_canonical(Algorithm algorithm);

/// "ring", "tree", "halving-doubling", "recursive-doubling", "tree-order", "shared-memory", "hierarchical-ring", ….
std::string_view name(Algorithm algorithm);
/// The names of all algorithms.
std::span<const std::string_view> algorithm_names();
/// The inverse of `name`.
/// @throws Error{invalid_argument} that suggests the nearest name and lists all
Algorithm parse_algorithm(std::string_view text);

}  // namespace lockstep::collectives
