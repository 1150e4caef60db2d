// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep {

/// A thread that notices when the process has been in one of MPI's blocking calls for longer than the deadline. This
/// happens if another process stops in the middle of the same call. The thread does not call MPI.
class Watchdog {
 public:
  using Seconds = std::chrono::duration<double>;

  /// @param deadline  two seconds are added, in which processes start and better informed ranks report first
  /// @param on_stuck  called once, on the watchdog's thread; see WorldOptions::on_stuck
  Watchdog(Seconds deadline, std::function<void(std::string_view)> on_stuck);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  /// Enters a blocking call. Calls may be nested; the innermost counts.
  void enter(std::string call);
  void leave();
  /// Restarts the time of the current call, which has made progress.
  void touch();

 private:
  using Clock = std::chrono::steady_clock;
  struct Call {
    std::string name;
    Clock::time_point begin;
  };

  void watch();
  [[nodiscard]] std::string complaint(const Call& call) const;

  Seconds deadline_;
  std::function<void(std::string_view)> on_stuck_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::vector<Call> calls_;
  std::thread thread_;
};

/// Makes a watchdog, if there is one, watch a scope.
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

}  // namespace lockstep
