// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

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

}  // namespace lockstep::collectives
