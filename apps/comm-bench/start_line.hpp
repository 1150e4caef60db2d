// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <string_view>

#include "apps/comm-bench/ranks.hpp"
#include "lockstep/base/observer.hpp"

namespace lockstep::comm_bench {

/// When a timed operation begins.
enum class Protocol {
  common_clock,  ///< at a moment that the ranks of one machine agree on; across machines like `barrier`
  barrier,       ///< for each rank when it leaves a barrier, by its own clock, as in most programs
};
inline constexpr std::array<std::string_view, 2> protocol_names = {"common-clock", "barrier"};

/// Lets ranks begin a timed operation together; the time that this takes is not measured.
///
/// Ranks leave a barrier one after the other, up to a microsecond apart, differently in each MPI library. The first
/// rank to leave then waits in the operation for the last, so the time of a small operation would be dominated by the
/// barrier. Ranks that read the same clock, because they run under one kernel, therefore agree on a moment in the
/// future and wait for it. Several machines have no such clock, so they use the barrier.
/// @source Hunold, Carpen-Amarie, IEEE TPDS 27(12), 2016 (window-based synchronization)
class StartLine {
 public:
  /// Finds out whether the ranks share a clock. Collective.
  /// @param yields  whether it yields the core while it waits, even if each rank has a core
  StartLine(Ranks& ranks, Protocol protocol, bool yields = false);

  [[nodiscard]] bool common_clock() const { return common_clock_; }
  /// Waits until all ranks may begin. @return the moment to count from: the agreed one, or otherwise this rank's own
  Clock::time_point wait();

 private:
  void wait_until(Clock::time_point start) const;

  Ranks* ranks_;
  bool common_clock_;
  bool yields_;  // also true with more ranks than cores, to let the other ranks run
  Clock::duration lead_;
};

}  // namespace lockstep::comm_bench
