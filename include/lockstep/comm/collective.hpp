// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/collective_kind.hpp"
#include "lockstep/base/leaves.hpp"
#include "lockstep/base/queue.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep {

/// A collective operation as submitted to a back end, already validated.
struct Collective {
  CollectiveKind kind = CollectiveKind::barrier;
  ConstBuffer in;  ///< equals `out` (or the caller's part of it) if the operation is in place; of a scatter, empty on
                   ///< ranks other than the root
  Buffer out;      ///< of a reduce or gather, empty on ranks other than the root
  ReduceOp op = ReduceOp::sum;
  Rank root;  ///< root of a broadcast, reduce, gather or scatter; the other rank of a send or recv
  Queue queue = Queue::host();
  std::string_view label;  ///< the caller's name for the operation; valid during submission only
  /// If parts may differ: number of elements of each rank's part, in the order of ranks; of an all_to_all_v, of the
  /// part sent to each rank. Valid during submission only, like `received`.
  std::span<const Count> parts{};
  std::span<const Count> received{};  ///< all_to_all_v only: number of elements received from each rank
  Leaves leaves{};                    ///< all_reduce only: if there are leaves, `in` is the first of this rank's sums
};

/// The input of a rank to an all_reduce, from the first element of its first sum to the last element of its last sum.
inline ConstBuffer whole_input(const Collective& collective, Rank rank, int ranks) {
  ConstBuffer whole = collective.in;
  if (collective.leaves.total == 0) return whole;
  const int sums = count_tree_nodes(collective.leaves.total, share_of(collective.leaves.total, rank.value, ranks));
  whole.count.value += (sums - 1) * collective.leaves.stride.value;
  return whole;
}

/// The offset of the part of `rank`.
inline Count offset_of_part(std::span<const Count> parts, Rank rank) {
  Count offset;
  for (const Count part : parts.first(static_cast<std::size_t>(rank.value))) offset.value += part.value;
  return offset;
}

/// The number of elements of the buffer. If each rank has a part, the number of elements of a part; if these differ,
/// their mean, rounded up. It is the same on all ranks, and therefore 0 for an all_to_all_v.
inline Count part_of(const Collective& collective, int ranks) {
  if (collective.kind == CollectiveKind::reduce_scatter || collective.kind == CollectiveKind::scatter)
    return collective.out.count;
  if (collective.kind == CollectiveKind::all_to_all) return {collective.in.count.value / ranks};
  const auto mean = [&](Count all) { return Count{all.value / ranks + (all.value % ranks == 0 ? 0 : 1)}; };
  if (collective.kind == CollectiveKind::all_gather_v) return mean(collective.out.count);
  if (collective.kind == CollectiveKind::reduce_scatter_v) return mean(collective.in.count);
  if (collective.kind == CollectiveKind::all_to_all_v) return {0};
  return collective.in.count;
}

}  // namespace lockstep
