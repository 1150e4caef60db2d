// SPDX-License-Identifier: Apache-2.0
#include "collectives/choice/choice.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

constexpr std::array kinds{
    CollectiveKind::all_reduce,     CollectiveKind::broadcast,        CollectiveKind::all_gather,
    CollectiveKind::reduce_scatter, CollectiveKind::reduce,           CollectiveKind::all_to_all,
    CollectiveKind::barrier,        CollectiveKind::gather,           CollectiveKind::scatter,
    CollectiveKind::all_gather_v,   CollectiveKind::reduce_scatter_v, CollectiveKind::all_to_all_v};

/// All-reduces whose purpose is speed; of equally fast ones the first is chosen.
constexpr std::array fast{Algorithm::shared_memory,
                          Algorithm::hierarchical_ring,
                          Algorithm::hierarchical_double_tree,
                          Algorithm::hierarchical_halving_doubling,
                          Algorithm::hierarchical_recursive_doubling,
                          Algorithm::ring,
                          Algorithm::double_tree,
                          Algorithm::halving_doubling,
                          Algorithm::recursive_doubling};

/// Returns whether the algorithm can be faster here than a simpler one. An algorithm that uses shared memory needs
/// nodes with several ranks and, if it is hierarchical, several nodes.
bool is_worthwhile(Algorithm algorithm, const ShapeSummary& shape) {
  if (!uses_shared_memory(algorithm)) return true;
  return shape.max_ranks_per_node > 1 && (algorithm == Algorithm::shared_memory || shape.nodes > 1);
}

bool has_radix(CollectiveKind kind, Algorithm algorithm) {
  const Algorithm across = across_nodes(algorithm);
  return kind == CollectiveKind::all_reduce &&
         (across == Algorithm::halving_doubling || across == Algorithm::recursive_doubling);
}

std::string counted(int number, const std::string& what) {
  return std::to_string(number) + ' ' + what + (number == 1 ? "" : "s");
}

/// Returns whether the operation can use shared memory. An all_to_all_v always uses messages, see `is_shared`.
bool may_share_memory(CollectiveKind kind) { return kind != CollectiveKind::all_to_all_v; }

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
  switch (algorithm) {
    case Algorithm::ring:
    case Algorithm::double_tree:
    case Algorithm::halving_doubling:
    case Algorithm::recursive_doubling:
    case Algorithm::tree_order:
    case Algorithm::hierarchical_ring:
    case Algorithm::hierarchical_double_tree:
    case Algorithm::hierarchical_halving_doubling:
    case Algorithm::hierarchical_recursive_doubling:
    case Algorithm::hierarchical_tree_order: return shape.ranks >= 1;
    case Algorithm::shared_memory: return shape.nodes == 1;
  }
  return false;
}

void require_applicable(Algorithm algorithm, const ShapeSummary& shape) {
  if (applicable(algorithm, shape)) return;
  throw Error(ErrorCode::invalid_argument,
              "the algorithm '" + std::string(name(algorithm)) + "' cannot run on " + describe(shape));
}

std::vector<Algorithm> candidates(CollectiveKind kind, const ShapeSummary& shape) {
  const auto is_of_kind = [&](Algorithm algorithm) {
    return kind == CollectiveKind::all_reduce || algorithm == Choice{}.algorithm ||
           (algorithm == Algorithm::shared_memory && may_share_memory(kind));
  };
  std::vector<Algorithm> able;
  std::copy_if(fast.begin(), fast.end(), std::back_inserter(able), [&](Algorithm algorithm) {
    return is_of_kind(algorithm) && applicable(algorithm, shape) && is_worthwhile(algorithm, shape);
  });
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
  if (algorithm == Algorithm::shared_memory && may_share_memory(kind)) return name(algorithm);
  switch (kind) {
    case CollectiveKind::all_reduce: return name(algorithm);
    case CollectiveKind::broadcast:
    case CollectiveKind::gather:
    case CollectiveKind::scatter:
    case CollectiveKind::reduce: return "binomial";
    case CollectiveKind::all_gather:
    case CollectiveKind::all_gather_v:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::reduce_scatter_v: return "ring";
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_to_all_v: return "pairwise";
    case CollectiveKind::barrier: return "dissemination";
    case CollectiveKind::send:
    case CollectiveKind::recv: break;
  }
  return "unknown";
}

Algorithm parse_algorithm(CollectiveKind kind, std::string_view text) {
  if (kind == CollectiveKind::all_reduce) return parse_algorithm(text);
  const std::array names{algorithm_name(kind, Choice{}.algorithm), name(Algorithm::shared_memory)};
  if (text == names[0]) return Choice{}.algorithm;
  if (text == names[1] && may_share_memory(kind)) return Algorithm::shared_memory;
  const auto known = std::span(names).first(may_share_memory(kind) ? 2 : 1);
  throw Error(ErrorCode::invalid_argument, unknown("algorithm of " + std::string(name(kind)), text, known));
}

CollectiveKind parse_kind(std::string_view text) {
  std::array<std::string_view, kinds.size()> names;
  std::transform(kinds.begin(), kinds.end(), names.begin(), [](CollectiveKind kind) { return name(kind); });
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return kinds[static_cast<std::size_t>(found - names.begin())];
  throw Error(ErrorCode::invalid_argument, unknown("operation", text, names));
}

}  // namespace lockstep::collectives
