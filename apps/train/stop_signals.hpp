// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <string>
#include <thread>

namespace lockstep::train {

/// Takes SIGINT, SIGTERM, SIGUSR1 and SIGUSR2 on a thread of its own, and keeps them from the thread that makes it and
/// from all threads that this one starts later. oneDNN's generated code lets the stack pointer point into the heap,
/// where a signal's frame would overwrite other data; so no signal may be handled on a thread that computes. At most
/// one object may exist at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// From now on SIGINT, SIGTERM and SIGUSR2 request an orderly end of the run instead of ending the process, and
  /// SIGUSR1 requests a checkpoint. A further one of the three a second or more after the first ends the process at
  /// once. An earlier one counts as the same, because a launcher and a terminal may both deliver it.
  void handle();

  /// Returns the first SIGINT, SIGTERM or SIGUSR2 that was received; 0: none.
  [[nodiscard]] static const std::atomic<int>& received();
  /// Returns how often SIGUSR1 was received.
  [[nodiscard]] static const std::atomic<int>& save_requests();

 private:
  static constexpr std::array<int, 4> signals = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
  std::array<struct sigaction, signals.size()> before_{};
  sigset_t mask_before_{};
  int end_ = -1;  // an eventfd that ends the thread
  std::thread thread_;
};

/// Returns the signal's name, such as "SIGTERM".
std::string signal_name(int signal);

}  // namespace lockstep::train
