// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/platform/ranks/rank_set.hpp"

namespace lockstep {

class WaitMonitor;
class Watchdog;

/// Makes a watchdog, if there is one, watch a scope in which MPI may block.
class BlockingCall {
 public:
  BlockingCall(std::shared_ptr<Watchdog> watchdog, std::string call);
  /// @param monitor  may be null
  BlockingCall(const std::shared_ptr<WaitMonitor>& monitor, std::string call);
  BlockingCall(const RankSet& group, std::string call);
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;
  ~BlockingCall();

  void touch();

 private:
  std::shared_ptr<Watchdog> watchdog_;
};

/// The MPI library that this process runs with, e.g. "Open MPI v4.1.4", as the library names itself. It may be called
/// before there is a World, and is not collective.
std::string mpi_library_version();

}  // namespace lockstep
