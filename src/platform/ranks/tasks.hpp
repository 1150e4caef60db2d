// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

class FlightRecorder;
class Watchdog;

/// What this rank does beside exchanging data, so that ranks that wait for it can say so. `Phase` names it.
class Tasks {
 public:
  using Seconds = std::chrono::duration<double>;
  enum class Kind {
    exchange,  ///< "rank 3 has not joined in <what>"
    work,      ///< each rank works by itself: "rank 3 has not finished <what>"
  };

  explicit Tasks(std::shared_ptr<Watchdog> watchdog = nullptr) : watchdog_(std::move(watchdog)) {}
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;
  virtual ~Tasks() = default;

  void begin(std::string what, Kind kind, Seconds extra = Seconds(0)) {
    tasks_.push_back({std::move(what), kind, extra});
    note_change();
  }
  void end() {
    tasks_.pop_back();
    note_change();
  }

  [[nodiscard]] bool is_idle() const { return tasks_.empty(); }
  /// The current task: "making a communicator (sharing memory of the node)".
  [[nodiscard]] std::string what() const {
    if (tasks_.empty()) return "exchanging data";
    if (tasks_.size() == 1 || tasks_.back().kind == Kind::work) return tasks_.back().what;
    return tasks_.front().what + " (" + tasks_.back().what + ")";
  }
  [[nodiscard]] Kind kind() const { return tasks_.empty() ? Kind::exchange : tasks_.back().kind; }
  /// What a rank has not done that does not come: "joined in exchanging data", "finished loading the data set".
  [[nodiscard]] std::string undone() const { return (kind() == Kind::work ? "finished " : "joined in ") + what(); }
  /// The time that the current task may take in addition to a deadline.
  [[nodiscard]] Seconds extra() const {
    return std::accumulate(tasks_.begin(), tasks_.end(), Seconds(0),
                           [](Seconds sum, const Task& task) { return sum + task.extra; });
  }

  /// Tells the watchdog of the tasks from now on.
  void set_watchdog(std::shared_ptr<Watchdog> watchdog) { watchdog_ = std::move(watchdog); }
  /// Watches this rank; null if nothing does.
  [[nodiscard]] const std::shared_ptr<Watchdog>& watchdog() const { return watchdog_; }
  /// The record of this rank's operations; null unless a watchdog has joined the job.
  [[nodiscard]] std::shared_ptr<FlightRecorder> recorder() const;
  /// Records that this rank polls.
  void note_poll() const;

 private:
  void note_change() const;

  struct Task {
    std::string what;
    Kind kind;
    Seconds extra;
  };
  std::vector<Task> tasks_;
  std::shared_ptr<Watchdog> watchdog_;
};

}  // namespace lockstep
