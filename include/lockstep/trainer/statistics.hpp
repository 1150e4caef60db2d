// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/statistics_exchange.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::trainer {

/// Sums small buffers over the ranks of a communicator.
class CommunicatorStatistics : public StatisticsExchange {
 public:
  /// @param communicator  outlives this
  explicit CommunicatorStatistics(Communicator& communicator) : communicator_(&communicator) {}

  void sum(Buffer buffer, Queue queue) override {
    communicator_->all_reduce(buffer, buffer, ReduceOp::sum, queue, "statistics").wait();
  }

 private:
  Communicator* communicator_;
};

}  // namespace lockstep::trainer
