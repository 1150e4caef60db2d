// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/comm/collective.hpp"

namespace lockstep {

/// The input of a rank to an all_reduce, from the first element of its first sum to the last element of its last sum.
inline ConstBuffer whole_input(const Collective& collective, Rank rank, int ranks) {
  ConstBuffer whole = collective.in;
  const LeafShares& shares = collective.leaves.shares;
  if (shares.total() == 0) return whole;
  const int sums = count_tree_nodes(shares.total(), shares.of(rank.value, ranks));
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

/// Copies of the per-rank counts of an operation that begins after its submission, because the caller's counts are
/// valid only during submission. Allocates nothing if there were as many counts before.
class KeptCounts {
 public:
  /// Copies the counts and makes the collective refer to the copies.
  void keep(Collective& collective) {
    parts_.assign(collective.parts.begin(), collective.parts.end());
    received_.assign(collective.received.begin(), collective.received.end());
    collective.parts = parts_;
    collective.received = received_;
  }
  /// Returns the counts sent to each rank, followed by the counts received from each rank.
  [[nodiscard]] std::span<const std::byte> bytes() {
    both_.assign(parts_.begin(), parts_.end());
    both_.insert(both_.end(), received_.begin(), received_.end());
    return std::as_bytes(std::span(both_));
  }

 private:
  std::vector<Count> parts_;
  std::vector<Count> received_;
  std::vector<Count> both_;
};

}  // namespace lockstep
