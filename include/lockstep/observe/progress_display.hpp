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

/// How long a run is: what the time left is computed from.
struct RunLength {
  std::int64_t steps = 1;  ///< of the whole run
  std::int64_t steps_per_epoch = 1;
  Count images_per_epoch;          ///< over all ranks
  Count batch;                     ///< images of a step over all ranks; the last step of an epoch may have fewer
  std::int64_t eval_interval = 1;  ///< as TrainerOptions::eval_interval
};

/// What progress is shown on.
struct ProgressOptions {
  bool terminal = false;     ///< true: one line is rewritten in place; false: plain lines
  std::size_t columns = 80;  ///< of the terminal, which a line does not exceed
  /// The time after which the next plain line is due. A terminal's line is rewritten up to ten times a second.
  double interval_seconds = 4.5;
};

/// Shows a person how training goes: a progress line, and a table with a row per epoch. For rank 0; the other ranks
/// make none.
///
/// A line is due after every interval, whether or not anything has happened: then it says what is under way and for how
/// long. Whoever owns the display calls `tick` at least twice a second for that. Not thread-safe.
class ProgressDisplay {
 public:
  /// @param out  must outlive this
  ProgressDisplay(std::ostream& out, const ProgressOptions& options, Clock::time_point now = Clock::now())
      : out_(out), options_(options), shown_(now), since_(now) {}

  /// What goes on from now on, until the next call or event, e.g. "loading mnist".
  void phase(const std::string& what, Clock::time_point now = Clock::now());
  /// The run is about to start. To be called before the first step.
  void start(const RunLength& run, Clock::time_point now = Clock::now());
  /// Shows epoch, step, loss, images/s and the time left at that rate, unless a line was shown a moment ago.
  void step(const ProgressEvent& event, Clock::time_point now = Clock::now());
  /// Shows how far an evaluation has come, unless a line was shown a moment ago.
  void evaluation(const EvaluationEvent& event, Clock::time_point now = Clock::now());
  /// Appends a row to the table, below its heading the first time.
  void epoch(const EpochEvent& event, Clock::time_point now = Clock::now());
  /// Shows what is under way if a line is due.
  void tick(Clock::time_point now = Clock::now());
  /// Writes text of whole lines in the place of the progress line.
  void print(const std::string& text);

 private:
  /// How many images were trained on after so many seconds of training.
  struct Point {
    std::int64_t images = 0;
    double seconds = 0;
  };
  [[nodiscard]] double images_per_second(const ProgressEvent& event) const;
  [[nodiscard]] double seconds_left(const ProgressEvent& event) const;
  [[nodiscard]] std::string place_text(std::int64_t epoch) const;
  void show(const std::string& line, Clock::time_point now);
  [[nodiscard]] bool is_due(Clock::time_point now, double terminal_interval_seconds) const;

  std::ostream& out_;
  ProgressOptions options_;
  RunLength run_;
  Clock::time_point shown_;             // the last line
  Clock::time_point since_;             // when what is under way began
  std::string under_way_ = "starting";  // what that is
  Point from_;                          // the rate is that since here, a few seconds ago
  Point next_;                          // where it will be counted from next
  std::optional<double> evaluation_seconds_;
  bool first_ = true;  // no step has been shown yet
  bool line_open_ = false;
  bool heading_done_ = false;
};

}  // namespace lockstep::observe
