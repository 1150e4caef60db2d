// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/blocks.hpp"

#include <algorithm>
#include <limits>

#include "collectives/plan/partition.hpp"

namespace lockstep::collectives {
namespace {

/// Saturates, so that a segment of the maximum length can express that nothing is to be divided.
Count times(std::int64_t factor, Count segment) {
  constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  return {segment.value > limit / factor ? limit : factor * segment.value};
}

}  // namespace

Count block_count(CollectiveKind kind, Algorithm algorithm, int ranks, Count segment) {
  const bool is_binomial = kind == CollectiveKind::gather || kind == CollectiveKind::scatter;
  if (is_binomial && ranks > 2) return {std::max<std::int64_t>(1, segment.value / ranks * 2)};
  if (kind != CollectiveKind::all_reduce) return segment;
  switch (algorithm) {
    case Algorithm::ring: return times(ranks, segment);
    case Algorithm::double_tree: return times(2, segment);
    case Algorithm::halving_doubling:
    case Algorithm::tree_order: return times(floor_log2(ranks) + 1, segment);
    default: return segment;
  }
  return segment;
}

}  // namespace lockstep::collectives
