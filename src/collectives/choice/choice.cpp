// SPDX-License-Identifier: Apache-2.0
#include "collectives/choice/choice.hpp"

#include <algorithm>
#include <limits>

#include "base/nearest.hpp"
#include "collectives/algorithms/operations.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

/// Returns whether the algorithm can be faster here than a simpler one. An algorithm that uses shared memory needs
/// nodes with several ranks and, if it is hierarchical, several nodes.
bool is_worthwhile(Algorithm algorithm, const ShapeSummary& shape) {
  if (!uses_shared_memory(algorithm)) return true;
  return shape.max_ranks_per_node > 1 && (algorithm == Algorithm::shared_memory || shape.nodes > 1);
}

bool has_radix(CollectiveKind kind, Algorithm algorithm) {
  return kind == CollectiveKind::all_reduce && algorithm != Algorithm::shared_memory && row_of(algorithm).has_radix;
}

std::string counted(int number, const std::string& what) {
  return std::to_string(number) + ' ' + what + (number == 1 ? "" : "s");
}

}  // namespace

ShapeSummary summarize(const ClusterShape& shape) {
  const int nodes = shape.nodes();
  int fewest = std::numeric_limits<int>::max();
  int most = 0;
  for (int node = 0; node < nodes; ++node) {
    const auto here = static_cast<int>(shape.ranks_on(node).size());
    fewest = std::min(fewest, here);
    most = std::max(most, here);
  }
  return {.nodes = nodes, .ranks = shape.ranks(), .min_ranks_per_node = fewest, .max_ranks_per_node = most};
}

bool is_possible(const ShapeSummary& s) {
  if (s.nodes < 1 || s.min_ranks_per_node < 1 || s.max_ranks_per_node < s.min_ranks_per_node) return false;
  // These are all nodes but one that has the fewest, or the most, ranks.
  const auto others = static_cast<std::int64_t>(s.nodes) - 1;
  return others * s.min_ranks_per_node + s.max_ranks_per_node <= s.ranks &&
         s.ranks <= s.min_ranks_per_node + others * s.max_ranks_per_node;
}

std::string describe(const ShapeSummary& s) {
  std::string text = counted(s.ranks, "rank") + " on " + counted(s.nodes, "node");
  if (s.min_ranks_per_node != s.max_ranks_per_node) {
    text += ", " + std::to_string(s.min_ranks_per_node) + " to " + std::to_string(s.max_ranks_per_node) + " on each";
  }
  return text;
}

Choice with_useful_blocks(Choice choice, const ShapeSummary& shape) {
  constexpr int in_shared_memory = 2;
  if (uses_shared_memory(choice.algorithm) && shape.nodes == 1) {
    choice.blocks_in_flight = std::min(choice.blocks_in_flight, in_shared_memory);
  }
  return choice;
}

bool applicable(Algorithm algorithm, const ShapeSummary& shape) {
  return algorithm == Algorithm::shared_memory ? shape.nodes == 1 : shape.ranks >= 1;
}

void require_applicable(Algorithm algorithm, const ShapeSummary& shape) {
  if (applicable(algorithm, shape)) return;
  throw Error(ErrorCode::invalid_argument,
              "the algorithm '" + std::string(name(algorithm)) + "' cannot run on " + describe(shape));
}

std::vector<Algorithm> candidates(CollectiveKind kind, const ShapeSummary& shape, SelectedBy by) {
  const auto is_candidate = [&](Algorithm algorithm) {
    if (!applicable(algorithm, shape) || !is_worthwhile(algorithm, shape)) return false;
    if (algorithm == Algorithm::shared_memory) return may_share_memory(kind);
    if (kind != CollectiveKind::all_reduce) return algorithm == Choice{}.algorithm;
    return row_of(algorithm).selected_by >= by;
  };
  std::vector<Algorithm> able;
  std::copy_if(all_algorithms.begin(), all_algorithms.end(), std::back_inserter(able), is_candidate);
  std::stable_partition(able.begin(), able.end(), uses_shared_memory);
  return able;
}

std::string radix_text(CollectiveKind kind, const Choice& choice) {
  return has_radix(kind, choice.algorithm) ? std::to_string(choice.radix) : "-";
}

std::vector<int> useful_radices(CollectiveKind kind, Algorithm algorithm, const ShapeSummary& shape) {
  constexpr int widest = 32;  // beyond it a rank has more messages in flight than a network interface handles well
  std::vector<int> radices = {2};
  if (!has_radix(kind, algorithm)) return radices;
  const int most = std::min(uses_shared_memory(algorithm) ? shape.nodes : shape.ranks, widest);
  for (int radix = 4; radix <= most; radix *= 2) radices.push_back(radix);
  return radices;
}

std::string_view algorithm_name(CollectiveKind kind, Algorithm algorithm) {
  return kind == CollectiveKind::all_reduce || is_shared(kind, algorithm) ? name(algorithm) : row_of(kind).name;
}

std::vector<std::string_view> algorithm_names(CollectiveKind kind) {
  const std::span<const std::string_view> all = algorithm_names();
  if (kind == CollectiveKind::all_reduce) return {all.begin(), all.end()};
  std::vector<std::string_view> names{row_of(kind).name};
  if (may_share_memory(kind)) names.push_back(name(Algorithm::shared_memory));
  return names;
}

Algorithm parse_algorithm(CollectiveKind kind, std::string_view text) {
  if (kind == CollectiveKind::all_reduce) return parse_algorithm(text);
  const std::vector<std::string_view> names = algorithm_names(kind);
  if (text == names.front()) return Choice{}.algorithm;
  if (text == names.back()) return Algorithm::shared_memory;
  throw Error(ErrorCode::invalid_argument, unknown("algorithm of " + std::string(name(kind)), text, names));
}

CollectiveKind parse_kind(std::string_view text) {
  std::vector<std::string_view> names;
  for (const CollectiveKind kind : planned_kinds()) {
    if (name(kind) == text) return kind;
    names.push_back(name(kind));
  }
  throw Error(ErrorCode::invalid_argument, unknown("operation", text, names));
}

}  // namespace lockstep::collectives
