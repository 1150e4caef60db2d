// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <string>

namespace lockstep::train {

/// While it lives, SIGINT, SIGTERM and SIGUSR1 ask for an end of the run in good order instead of ending the process.
/// A further signal a second or more after the first ends the process at once, as each does without this object; one
/// that comes sooner is taken for the same, which a launcher and a terminal may both deliver. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that has come first; 0: none.
  [[nodiscard]] static const std::atomic<int>& received();

 private:
  static constexpr std::array<int, 3> signals = {SIGINT, SIGTERM, SIGUSR1};
  std::array<struct sigaction, signals.size()> before_{};
};

/// "SIGTERM"
std::string signal_name(int signal);

}  // namespace lockstep::train
