// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/loop/training_run.hpp"

namespace lockstep::trainer {

/// Where the training time of a rank went, in seconds. Waiting for others is no time of its own: in step, all ranks are
/// equally fast, and only the own time tells which of them the others wait for.
struct RankTime {
  double data = 0;     ///< until batches were there
  double compute = 0;  ///< all other time of its own: from the last operation that waited to the next one that waits
  double wait = 0;     ///< in operations that wait for other ranks

  friend RankTime operator-(const RankTime& a, const RankTime& b) {
    return {a.data - b.data, a.compute - b.compute, a.wait - b.wait};
  }
};

/// Returns the slowest rank, by its own time, and then all others that spend at least a twentieth of the step more than
/// usual on data or on computing, the worst first. The usual time is the median over ranks, the lower one of two.
/// @param times  of each rank, over `steps` steps
/// @return nothing for a single rank or no steps
std::vector<observe::SlowRank> slow_ranks(std::span<const RankTime> times, std::span<const std::string> hosts,
                                          std::int64_t steps);

/// Reports the slow ranks of an epoch, and within an epoch from time to time.
class StragglerReports {
 public:
  /// A point of the run on this rank.
  struct Mark {
    RankTime time;  ///< since the start
    std::int64_t global_step = 0;
  };

  /// @param run  outlives this
  explicit StragglerReports(TrainingRun& run) : run_(&run) {}

  [[nodiscard]] Mark mark() const;
  /// Compares the ranks' own times since then. Collective. @return the same on all ranks, as `slow_ranks`
  /// @cost one all-gather of 88 bytes from each rank
  std::vector<observe::SlowRank> slow_ranks_since(const Mark& before);

  /// Begins the interval until the next report.
  void restart();
  /// Whether rank 0, which this is then, wants a report.
  [[nodiscard]] bool wants_report() const;
  /// Called when all ranks have agreed to report after the steps in flight.
  void set_due() { is_due_ = true; }
  /// Reports the slow ranks since the last report if all ranks have agreed to. Collective.
  void report_if_due();

 private:
  TrainingRun* run_;
  Mark last_;                   // at the last report
  Clock::time_point reported_;  // when that was
  bool is_due_ = false;
};

}  // namespace lockstep::trainer
