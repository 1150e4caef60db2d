#pragma once

#include <string_view>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/queue.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep {

enum class CollectiveKind { all_reduce, broadcast, all_gather, reduce_scatter, barrier };
std::string_view name(CollectiveKind kind);

/// A collective operation as submitted to a back end, already validated.
struct Collective {
  CollectiveKind kind = CollectiveKind::barrier;
  ConstBuffer in;  ///< equals `out` (or the caller's part of it) where the operation is in place
  Buffer out;
  ReduceOp op = ReduceOp::sum;
  Rank root;  ///< broadcast only
  Queue queue = Queue::host();
  std::string_view label;  ///< the caller's name for it; valid during submission only
};

}  // namespace lockstep
