// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "collectives/plan/plan.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::backends {

/// A plan in executable form: the dependencies are inverted, so that a finished step finds the steps that wait for it.
class CompiledPlan {
 public:
  explicit CompiledPlan(collectives::Plan plan);

  [[nodiscard]] const std::vector<collectives::Step>& steps() const { return plan_.steps; }
  /// Returns whether it has steps that need a link to the node's ranks.
  [[nodiscard]] bool shares_memory() const { return shares_memory_; }
  /// Returns whether its steps are best run one by one: it shares memory and has no messages.
  [[nodiscard]] bool is_in_order() const { return is_in_order_; }
  [[nodiscard]] Count staging() const { return plan_.staging; }
  [[nodiscard]] Count scratch() const { return plan_.scratch; }
  /// Returns the elements of the largest message that is reduced on arrival.
  [[nodiscard]] Count landing() const { return landing_; }
  /// Returns which of the `landing_buffers` a ReceiveReduce uses.
  [[nodiscard]] int landing_buffer(int step) const { return landing_buffer_[static_cast<std::size_t>(step)]; }

  /// The first function returns for each step the number of events that it waits for, the others the steps that wait
  /// for a step to be done or to be started.
  [[nodiscard]] const std::vector<int>& waits() const { return waits_; }
  [[nodiscard]] const std::vector<int>& after_done(int step) const {
    return after_done_[static_cast<std::size_t>(step)];
  }
  [[nodiscard]] const std::vector<int>& after_started(int step) const {
    return after_started_[static_cast<std::size_t>(step)];
  }

 private:
  collectives::Plan plan_;
  bool shares_memory_ = false;
  bool is_in_order_ = false;
  Count landing_;
  std::vector<int> landing_buffer_;
  std::vector<int> waits_;
  std::vector<std::vector<int>> after_done_;
  std::vector<std::vector<int>> after_started_;
};

}  // namespace lockstep::backends
