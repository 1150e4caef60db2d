// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "collectives/algorithms/all_reduce.hpp"

/// The all-reduces over which tests go, so that a new row of all_reduces.def is in them.
namespace lockstep::testing_support {

using collectives::Algorithm;

/// By messages between all ranks.
inline constexpr auto message_algorithms =
    std::span(collectives::all_algorithms).first<collectives::all_reduce_count>();

/// Algorithms of a list that do not add in the canonical order.
inline std::vector<Algorithm> not_canonical(std::span<const Algorithm> all) {
  std::vector<Algorithm> others;
  std::copy_if(all.begin(), all.end(), std::back_inserter(others),
               [](Algorithm algorithm) { return !is_canonical(algorithm); });
  return others;
}

/// Between nodes of any sizes: all but the tree order.
inline std::vector<Algorithm> hierarchical_algorithms() {
  return not_canonical(std::span(collectives::all_algorithms).last<collectives::all_reduce_count>());
}

/// By messages, and with two algorithms for ranks of one node.
inline std::vector<Algorithm> algorithms_of_one_node() {
  std::vector<Algorithm> all(message_algorithms.begin(), message_algorithms.end());
  all.insert(all.end(), {Algorithm::shared_memory, Algorithm::hierarchical_tree_order});
  return all;
}

}  // namespace lockstep::testing_support
