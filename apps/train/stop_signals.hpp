// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <string>

namespace lockstep::train {

/// While an object exists, SIGINT and SIGTERM request an orderly end of the run instead of ending the process, and
/// SIGUSR1 requests a checkpoint. A further SIGINT or SIGTERM a second or more after the first ends the process at
/// once, as every signal does without this object. An earlier one counts as the same, because a launcher and a terminal
/// may both deliver it. At most one object may exist at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Returns the first SIGINT or SIGTERM that was received; 0: none.
  [[nodiscard]] static const std::atomic<int>& received();
  /// Returns how often SIGUSR1 was received.
  [[nodiscard]] static const std::atomic<int>& save_requests();

 private:
  static constexpr std::array<int, 3> signals = {SIGINT, SIGTERM, SIGUSR1};
  std::array<struct sigaction, signals.size()> before_{};
};

/// Returns the signal's name, such as "SIGTERM".
std::string signal_name(int signal);

}  // namespace lockstep::train
