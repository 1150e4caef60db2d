// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <string>

namespace lockstep::train {

/// While an object exists, SIGINT, SIGTERM and SIGUSR1 request an orderly end of the run instead of ending the process.
/// A further signal a second or more after the first ends the process at once, as every signal does without this
/// object. An earlier one counts as the same, because a launcher and a terminal may both deliver it. At most one object
/// may exist at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Returns the first signal that was received; 0: none.
  [[nodiscard]] static const std::atomic<int>& received();

 private:
  static constexpr std::array<int, 3> signals = {SIGINT, SIGTERM, SIGUSR1};
  std::array<struct sigaction, signals.size()> before_{};
};

/// Returns the signal's name, such as "SIGTERM".
std::string signal_name(int signal);

}  // namespace lockstep::train
