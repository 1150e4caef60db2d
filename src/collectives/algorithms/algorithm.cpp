// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/algorithm.hpp"

#include <algorithm>
#include <array>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

constexpr std::array algorithms{Algorithm::ring,
                                Algorithm::double_tree,
                                Algorithm::halving_doubling,
                                Algorithm::recursive_doubling,
                                Algorithm::tree_order,
                                Algorithm::shared_memory,
                                Algorithm::hierarchical_ring,
                                Algorithm::hierarchical_double_tree,
                                Algorithm::hierarchical_halving_doubling,
                                Algorithm::hierarchical_recursive_doubling,
                                Algorithm::hierarchical_tree_order};

}  // namespace

std::string_view name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ring: return "ring";
    case Algorithm::double_tree: return "tree";
    case Algorithm::halving_doubling: return "halving-doubling";
    case Algorithm::recursive_doubling: return "recursive-doubling";
    case Algorithm::tree_order: return "tree-order";
    case Algorithm::shared_memory: return "shared-memory";
    case Algorithm::hierarchical_ring: return "hierarchical-ring";
    case Algorithm::hierarchical_double_tree: return "hierarchical-tree";
    case Algorithm::hierarchical_halving_doubling: return "hierarchical-halving-doubling";
    case Algorithm::hierarchical_recursive_doubling: return "hierarchical-recursive-doubling";
    case Algorithm::hierarchical_tree_order: return "hierarchical-tree-order";
  }
  return "unknown";
}

Algorithm across_nodes(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::hierarchical_ring: return Algorithm::ring;
    case Algorithm::hierarchical_double_tree: return Algorithm::double_tree;
    case Algorithm::hierarchical_halving_doubling: return Algorithm::halving_doubling;
    case Algorithm::hierarchical_recursive_doubling: return Algorithm::recursive_doubling;
    case Algorithm::hierarchical_tree_order: return Algorithm::tree_order;
    default: return algorithm;
  }
}

bool uses_shared_memory(Algorithm algorithm) {
  return algorithm == Algorithm::shared_memory || across_nodes(algorithm) != algorithm;
}

bool is_canonical(Algorithm algorithm) { return across_nodes(algorithm) == Algorithm::tree_order; }

std::span<const std::string_view> algorithm_names() {
  static const auto names = [] {
    std::array<std::string_view, algorithms.size()> all;
    std::transform(algorithms.begin(), algorithms.end(), all.begin(), [](Algorithm a) { return name(a); });
    return all;
  }();
  return names;
}

Algorithm parse_algorithm(std::string_view text) {
  const std::span<const std::string_view> names = algorithm_names();
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return algorithms[static_cast<std::size_t>(found - names.begin())];
  throw Error(ErrorCode::invalid_argument, unknown("algorithm", text, names));
}

}  // namespace lockstep::collectives
