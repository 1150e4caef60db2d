// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/queue.hpp"

namespace lockstep {

/// Interface that sums a small buffer over all ranks, so that layers can share statistics without a communicator.
class StatisticsExchange {
 public:
  virtual ~StatisticsExchange() = default;
  /// Overwrites `buffer` on every rank with the sum over ranks. All ranks call it in the same order.
  /// @throws Error{transport | timeout}
  virtual void sum(Buffer buffer, Queue queue) = 0;
};

}  // namespace lockstep
