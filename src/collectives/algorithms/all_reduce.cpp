// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/all_reduce.hpp"

#include <algorithm>

#include "base/nearest.hpp"
#include "collectives/plan/partition.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

constexpr std::array<AllReduceRow, all_reduce_count> all_reduce_rows{{
#define ALL_REDUCE(algorithm, ...) {__VA_ARGS__},
#include "collectives/algorithms/all_reduces.def"
}};

std::string name_text(Algorithm algorithm) {
  if (algorithm == Algorithm::shared_memory) return "shared-memory";
  return (uses_shared_memory(algorithm) ? "hierarchical-" : "") + std::string(row_of(algorithm).name);
}

}  // namespace

const AllReduceRow& row_of(Algorithm algorithm) {
  return all_reduce_rows[static_cast<std::size_t>(across_nodes(algorithm))];
}

std::span<const std::string_view> algorithm_names() {
  static const auto texts = [] {
    std::vector<std::string> all;
    for (const Algorithm algorithm : all_algorithms) all.push_back(name_text(algorithm));
    return all;
  }();
  static const std::vector<std::string_view> names(texts.begin(), texts.end());
  return names;
}

std::string_view name(Algorithm algorithm) { return algorithm_names()[static_cast<std::size_t>(algorithm)]; }

Algorithm parse_algorithm(std::string_view text) {
  const std::span<const std::string_view> names = algorithm_names();
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return all_algorithms[static_cast<std::size_t>(found - names.begin())];
  throw Error(ErrorCode::invalid_argument, unknown("algorithm", text, names));
}

}  // namespace lockstep::collectives
