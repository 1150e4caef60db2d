// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "lockstep/comm/collective.hpp"

namespace lockstep {

/// The input of a rank to an all_reduce, from the first element of its first sum to the last element of its last sum.
inline ConstBuffer whole_input(const Collective& collective, Rank rank, int ranks) {
  ConstBuffer whole = collective.in;
  if (collective.leaves.total == 0) return whole;
  const int sums = count_tree_nodes(collective.leaves.total, share_of(collective.leaves.total, rank.value, ranks));
  whole.count += (sums - 1) * collective.leaves.stride;
  return whole;
}

/// The offset of the part of `rank`.
inline Count offset_of_part(std::span<const Count> parts, Rank rank) {
  Count offset;
  for (const Count part : parts.first(static_cast<std::size_t>(rank.value))) offset += part;
  return offset;
}

/// The number of elements of the buffer. If each rank has a part, the number of elements of a part; if these differ,
/// their mean, rounded up. It is the same on all ranks, and therefore 0 for an all_to_all_v.
inline Count part_of(const Collective& collective, int ranks) {
  if (collective.kind == CollectiveKind::reduce_scatter || collective.kind == CollectiveKind::scatter)
    return collective.out.count;
  if (collective.kind == CollectiveKind::all_to_all) return collective.in.count / ranks;
  const auto mean = [&](Count all) { return Count{all.value / ranks + (all.value % ranks == 0 ? 0 : 1)}; };
  if (collective.kind == CollectiveKind::all_gather_v) return mean(collective.out.count);
  if (collective.kind == CollectiveKind::reduce_scatter_v) return mean(collective.in.count);
  if (collective.kind == CollectiveKind::all_to_all_v) return {0};
  return collective.in.count;
}

}  // namespace lockstep
