// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <string_view>

#include "apps/comm-bench/ranks.hpp"
#include "lockstep/base/observer.hpp"

namespace lockstep::comm_bench {

/// When what is timed begins.
enum class Protocol {
  common_clock,  ///< at a moment that ranks of one machine agree on; between machines as `barrier`
  barrier,       ///< for each rank when it leaves a barrier, by its own clock: as most programs measure
};
inline constexpr std::array<std::string_view, 2> protocol_names = {"common-clock", "barrier"};

/// Lets ranks begin together what is to be timed, at a cost that is no part of it.
///
/// Ranks leave a barrier one after the other, up to a microsecond apart, each MPI library in its own manner. The first
/// to leave then waits in the operation for the last, and the time of a small operation becomes the barrier's. Ranks
/// that read the same clock, since one kernel keeps it, therefore agree on a moment that lies ahead of all of them and
/// wait for it. On several machines there is no such clock, and a barrier must do.
/// @source Hunold, Carpen-Amarie, IEEE TPDS 27(12), 2016 (window-based synchronization)
class StartLine {
 public:
  /// Finds out whether the ranks have a clock in common. Collective.
  /// @param yields  while it waits, even if each rank has a core
  StartLine(Ranks& ranks, Protocol protocol, bool yields = false);

  [[nodiscard]] bool common_clock() const { return common_clock_; }
  /// Returns when all ranks may begin, and the moment to count from: the agreed one, else this rank's own.
  Clock::time_point wait();

 private:
  void wait_until(Clock::time_point start) const;

  Ranks* ranks_;
  bool common_clock_;
  bool yields_;  // as it must with more ranks than cores, to let the others through
  Clock::duration lead_;
};

}  // namespace lockstep::comm_bench
