// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "lockstep/base/observer.hpp"
#include "lockstep/observe/events.hpp"

namespace lockstep::observe {

/// The length of a run, from which the remaining time is computed.
struct RunLength {
  std::int64_t steps = 1;  ///< steps of the whole run
  std::int64_t steps_per_epoch = 1;
  Count images_per_epoch;          ///< samples of an epoch over all ranks
  Count batch;                     ///< global batch; the last one of an epoch may be smaller
  std::int64_t eval_interval = 1;  ///< as TrainerOptions::eval_interval
};

/// Options of a ProgressDisplay.
struct ProgressOptions {
  bool terminal = false;     ///< true: one line is rewritten in place; false: plain lines
  std::size_t columns = 80;  ///< width of the terminal, which a line does not exceed
  /// Time until the next plain line is due. On a terminal, the line is rewritten up to ten times a second.
  double interval_seconds = 4.5;
};

/// Shows the progress of training on a terminal or in a log: a progress line, and a table with one row per epoch. Only
/// rank 0 makes one.
///
/// A line is due after every interval, even if nothing has happened. Then it shows the current activity and its
/// duration. For this, the owner of the display calls `tick` at least twice a second. Not thread-safe.
class ProgressDisplay {
 public:
  /// @param out  must outlive this
  ProgressDisplay(std::ostream& out, const ProgressOptions& options, Clock::time_point now = Clock::now())
      : out_(out), options_(options), shown_(now), since_(now) {}

  /// Sets the current activity, until the next call or event, e.g. "loading mnist".
  void phase(const std::string& what, Clock::time_point now = Clock::now());
  /// Starts the display of a run. Call it before the first step, and whenever a run goes on with other ranks.
  void start(const RunLength& run, Clock::time_point now = Clock::now());
  /// Shows epoch, step, loss, images/s, the time left at that rate, and on what rank 0 has spent its time, as far as it
  /// fits on the line, unless a line was shown a moment ago.
  void step(const ProgressEvent& event, Clock::time_point now = Clock::now());
  /// Shows how far an evaluation has come, unless a line was shown a moment ago.
  void evaluation(const EvaluationEvent& event, Clock::time_point now = Clock::now());
  /// Prints the slowest ranks, with what they take longer for than usual.
  void stragglers(const StragglerEvent& event);
  /// Prints a line: the number of shards of each rank.
  void balance(const BalanceEvent& event);
  /// Appends a row to the table, below its heading the first time.
  void epoch(const EpochEvent& event, Clock::time_point now = Clock::now());
  /// Shows the current activity if a line is due.
  void tick(Clock::time_point now = Clock::now());
  /// Writes text of whole lines in place of the progress line.
  void print(const std::string& text);

 private:
  [[nodiscard]] double images_per_second(const ProgressEvent& event) const;
  [[nodiscard]] std::string spent_text(const ProgressEvent& event, std::size_t columns) const;
  [[nodiscard]] double seconds_left(const ProgressEvent& event) const;
  [[nodiscard]] std::string place_text(std::int64_t epoch) const;
  void show(const std::string& line, Clock::time_point now);
  [[nodiscard]] bool is_due(Clock::time_point now, double terminal_interval_seconds) const;

  std::ostream& out_;
  ProgressOptions options_;
  RunLength run_;
  Clock::time_point shown_;             // time of the last line
  Clock::time_point since_;             // start of the current activity
  std::string under_way_ = "starting";  // current activity
  ProgressEvent from_;                  // start of the interval in which the rate is measured, a few seconds ago
  ProgressEvent next_;                  // start of the next such interval
  std::optional<double> evaluation_seconds_;
  bool first_ = true;  // no step has been shown yet
  bool line_open_ = false;
  bool heading_done_ = false;
};

}  // namespace lockstep::observe
