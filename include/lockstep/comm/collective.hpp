// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace lockstep
