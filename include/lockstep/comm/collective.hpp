// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/collective_kind.hpp"
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
  ConstBuffer in;  ///< equals `out` (or the caller's part of it) where the operation is in place
  Buffer out;      ///< of a reduce: no elements on other ranks than the root
  ReduceOp op = ReduceOp::sum;
  Rank root;  ///< broadcast and reduce only; of a send or recv the other rank
  Queue queue = Queue::host();
  std::string_view label;                   ///< the caller's name for it; valid during submission only
  const SliceFunction* function = nullptr;  ///< reduce_then only; valid during submission only
};

/// Elements of the buffer; of each part where there is one for each rank.
inline Count part_of(const Collective& collective, int ranks) {
  if (collective.kind == CollectiveKind::reduce_scatter) return collective.out.count;
  if (collective.kind == CollectiveKind::all_to_all) return {collective.in.count.value / ranks};
  return collective.in.count;
}

}  // namespace lockstep
