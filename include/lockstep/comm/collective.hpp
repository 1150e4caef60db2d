// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/collective_kind.hpp"
#include "lockstep/base/leaves.hpp"
#include "lockstep/base/queue.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep {

/// Makes a slice of a reduce_then's result: out[i] = f(sum[i], out[i]).
/// @param sum     the sums over all ranks; the same memory as `out` where the operation is in place
/// @param out     the same elements of the caller's output, as the caller left them; to be overwritten
/// @param offset  of the slice in the whole buffer
using SliceFunction = std::function<void(ConstBuffer sum, Buffer out, Count offset)>;

/// A collective operation as submitted to a back end, already validated.
struct Collective {
  CollectiveKind kind = CollectiveKind::barrier;
  ConstBuffer in;  ///< equals `out` (or the caller's part of it) where the operation is in place; of a scatter: no
                   ///< elements on other ranks than the root
  Buffer out;      ///< of a reduce or gather: no elements on other ranks than the root
  ReduceOp op = ReduceOp::sum;
  Rank root;  ///< broadcast, reduce, gather and scatter only; of a send or recv the other rank
  Queue queue = Queue::host();
  std::string_view label;                   ///< the caller's name for it; valid during submission only
  const SliceFunction* function = nullptr;  ///< reduce_then only; valid during submission only
  /// Elements of each rank's part, one behind the other, where parts may differ; in an all_to_all_v of what goes to
  /// each rank. Valid during submission only, as the next.
  std::span<const Count> parts{};
  std::span<const Count> received{};  ///< all_to_all_v only: elements of what comes from each rank
  Leaves leaves{};                    ///< all_reduce only: then `in` is the first of the rank's sums
};

/// What a rank brings to an all_reduce, from the first element to the last.
inline ConstBuffer whole_input(const Collective& collective, Rank rank, int ranks) {
  ConstBuffer whole = collective.in;
  if (collective.leaves.total == 0) return whole;
  const int sums = count_tree_nodes(collective.leaves.total, share_of(collective.leaves.total, rank.value, ranks));
  whole.count.value += (sums - 1) * collective.leaves.stride.value;
  return whole;
}

/// Where the part of `rank` begins.
inline Count offset_of_part(std::span<const Count> parts, Rank rank) {
  Count offset;
  for (const Count part : parts.first(static_cast<std::size_t>(rank.value))) offset.value += part.value;
  return offset;
}

/// Elements of the buffer; of each part where there is one for each rank, or of a mean part, rounded up. The same on
/// all ranks, so 0 for an all_to_all_v.
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
