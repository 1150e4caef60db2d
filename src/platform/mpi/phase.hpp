// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <sstream>
#include <string>

#include "lockstep/base/error.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep {

class FlightRecorder;
class WaitMonitor;
class Watchdog;

/// Names the task that the ranks of a group have in common while this object exists. Errors of ranks that wait in vain
/// name this task. Phases may be nested.
class Phase {
 public:
  enum class Kind {
    exchange,  ///< "rank 3 has not joined in <what>"
    work,      ///< each rank works by itself: "rank 3 has not finished <what>"
  };
  using Seconds = std::chrono::duration<double>;

  /// @param what   a gerund phrase: "loading the data set mnist"
  /// @param extra  time that the work is known to take on one rank, in addition to the group's deadline
  Phase(const MpiGroup& group, std::string what, Kind kind = Kind::exchange, Seconds extra = Seconds(0));
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;
  ~Phase();

 private:
  std::shared_ptr<WaitMonitor> monitor_;
};

/// Makes a watchdog, if there is one, watch a scope in which MPI may block.
class BlockingCall {
 public:
  BlockingCall(std::shared_ptr<Watchdog> watchdog, std::string call);
  BlockingCall(const MpiGroup& group, std::string call);
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;
  ~BlockingCall();

  void touch();

 private:
  std::shared_ptr<Watchdog> watchdog_;
};

/// The record of this rank's operations, if the group was made from a World with a watchdog; else null.
std::shared_ptr<FlightRecorder> flight_recorder_of(const MpiGroup& group);

/// @throws Error{invalid_argument} unless the deadline is positive and at most 10⁹ s, so that clocks can add it
inline void require_deadline(std::chrono::duration<double> deadline) {
  constexpr double longest = 1e9;
  if (deadline.count() > 0 && deadline.count() <= longest) return;
  std::ostringstream text;
  text << "a deadline of " << deadline.count()
       << " s is not possible: set GroupOptions::deadline or WorldOptions::deadline to more than 0 s, at most 1e9 s";
  throw Error(ErrorCode::invalid_argument, text.str());
}

}  // namespace lockstep
