// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/platform/mpi/mpi_group.hpp"
#include "platform/watchdog/watchdog.hpp"

namespace lockstep {

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

}  // namespace lockstep
