// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <string>
#include <thread>

namespace lockstep::train {

/// Takes SIGHUP, SIGINT, SIGTERM, SIGUSR1 and SIGUSR2 on a thread of its own, and keeps them from the thread that makes
/// it and from all threads that this one starts later. oneDNN's generated code lets the stack pointer point into the
/// heap, where a signal's frame would overwrite other data; so no signal may be handled on a thread that computes. At
/// most one object may exist at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// From now on SIGHUP, SIGINT, SIGTERM and SIGUSR2 request an orderly end of the run instead of ending the process,
  /// and SIGUSR1 requests a checkpoint. A further one of the four a second or more after the first ends the process at
  /// once. An earlier one counts as the same, because a launcher and a terminal may both deliver it. A signal that the
  /// process ignores, such as SIGHUP under nohup, stays ignored.
  ///
  /// This lasts until the process ends, longer than this object: a signal that comes as a completed run closes must not
  /// make a failure of it.
  void handle();

  /// Returns the first SIGHUP, SIGINT, SIGTERM or SIGUSR2 that was received; 0: none.
  [[nodiscard]] static const std::atomic<int>& received();
  /// Returns how often SIGUSR1 was received.
  [[nodiscard]] static const std::atomic<int>& save_requests();

 private:
  static constexpr std::array<int, 5> signals = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
  sigset_t mask_before_{};
  int end_ = -1;  // an eventfd that ends the thread
  std::thread thread_;
};

/// Returns the signal's name, such as "SIGTERM".
std::string signal_name(int signal);

}  // namespace lockstep::train
