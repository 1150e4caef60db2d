// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>

#include "lockstep/base/observer.hpp"
#include "lockstep/observe/events.hpp"

namespace lockstep::observe {

/// How long the run is, and what it is shown on.
struct ProgressOptions {
  std::int64_t epochs = 1;
  std::int64_t steps_per_epoch = 1;
  Count images_per_epoch;  ///< over all ranks
  bool terminal = false;   ///< true: one line is rewritten in place; false: plain lines
  double interval_seconds =
      10;  ///< least time between two plain lines; a terminal is rewritten up to ten times a second
};

/// Shows a person how training goes: a progress line within an epoch and a table with a row per epoch.
/// For rank 0; the other ranks make none.
class ProgressDisplay {
 public:
  /// @param out  must outlive this
  ProgressDisplay(std::ostream& out, const ProgressOptions& options) : out_(out), options_(options) {}

  /// Shows epoch, step, loss, images/s and the training time left at that rate, unless it did so a moment ago.
  void step(const StepEvent& event, Clock::time_point now = Clock::now());
  /// Appends a row to the table, below its heading the first time.
  void epoch(const EpochEvent& event);

 private:
  void clear_line();

  std::ostream& out_;
  ProgressOptions options_;
  std::optional<Clock::time_point> shown_;
  bool line_open_ = false;
  bool heading_done_ = false;
};

}  // namespace lockstep::observe
