// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "lockstep/base/observer.hpp"

namespace lockstep {

/// A source of operations that advance when it is polled.
class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  /// Advances every operation as far as possible without waiting; failures are kept in the operations.
  /// @return whether anything advanced
  virtual bool progress() noexcept = 0;
  /// Called about every millisecond while operations are waited for, also if this source is idle. It checks for events
  /// that no operation waits for: deadlines, peers that have gone, messages of other ranks. @return whether anything
  /// advanced
  virtual bool on_tick(Clock::time_point /*now*/) noexcept { return false; }
  /// Whether no operation is under way. A progress thread sleeps while all sources are idle.
  [[nodiscard]] virtual bool idle() const noexcept = 0;
  /// Sleeps for at most `at_most`, until a peer that it waits for has advanced; advances operations as `progress` does.
  /// @return false, without having slept, if no peer would wake it
  virtual bool sleep(std::chrono::nanoseconds /*at_most*/) noexcept { return false; }
};

}  // namespace lockstep
