// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/communicator.hpp"

namespace lockstep::backends {

/// Submits what has been submitted here to another communicator of the same ranks.
inline Work forward(Communicator& to, const Collective& c) {
  switch (c.kind) {
    case CollectiveKind::all_reduce: return to.all_reduce(c.in, c.out, c.op, c.queue, c.label);
    case CollectiveKind::reduce_then: return to.reduce_then(c.in, c.out, c.op, *c.function, c.queue, c.label);
    case CollectiveKind::broadcast: return to.broadcast(c.out, c.root, c.queue, c.label);
    case CollectiveKind::all_gather: return to.all_gather(c.in, c.out, c.queue, c.label);
    case CollectiveKind::reduce_scatter: return to.reduce_scatter(c.in, c.out, c.op, c.queue, c.label);
    case CollectiveKind::reduce: return to.reduce(c.in, c.out, c.op, c.root, c.queue, c.label);
    case CollectiveKind::all_to_all: return to.all_to_all(c.in, c.out, c.queue, c.label);
    case CollectiveKind::barrier: break;
  }
  return to.barrier(c.label);
}

}  // namespace lockstep::backends
