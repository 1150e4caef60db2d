// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/observer.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep::backends {

/// Finds out who is at fault where a rank waits in vain: it asks those whom it waits for whom they wait for, and so on,
/// until it meets one that does not answer, or that waits for nobody. For a rank that waits for one that waits for
/// another must not accuse the innocent one between.
class Blame {
 public:
  /// Who is at fault, as far as is known.
  struct Verdict {
    std::vector<int> silent;  ///< these ranks do not answer
    std::vector<int> absent;  ///< these answer, and have nothing under way
    std::vector<int> busy;    ///< these answer, and have something under way, but maybe on another communicator
    bool is_open = false;     ///< an answer may still come

    /// The ranks to name; none where all who are waited for wait for each other.
    [[nodiscard]] const std::vector<int>& culprits() const {
      if (!silent.empty()) return silent;
      return absent.empty() ? busy : absent;
    }
    /// "rank 3 does not answer: …"; empty where there are no culprits.
    [[nodiscard]] std::string text() const;
    [[nodiscard]] bool is_busy_alone() const { return silent.empty() && absent.empty() && !busy.empty(); }
  };

  /// For how long an answer is waited for, and holds, where a rank gives up at this deadline.
  static Clock::duration patience_for(std::chrono::duration<double> deadline) {
    constexpr std::chrono::duration<double> most(2);
    return std::chrono::duration_cast<Clock::duration>(std::min(deadline / 8, most));
  }

  /// @param patience  for how long an answer is waited for, and holds
  explicit Blame(Clock::duration patience) : patience_(patience) {}

  /// Asks, as far as has not been done, and reads what has been answered. @throws Error{transport}
  Verdict follow(ControlChannel& control, const std::vector<int>& awaited, Clock::time_point now);
  [[nodiscard]] Clock::duration patience() const { return patience_; }
  /// Forgets all answers: what this rank waited for has come.
  void forget() { inquiries_.clear(); }

 private:
  struct Inquiry {
    Clock::duration waited{};  // as far as this rank polled meanwhile
    bool is_answered = false;
    ControlChannel::Standing standing;
  };
  const Inquiry& inquire(ControlChannel& control, int rank, Clock::duration passed);

  Clock::duration patience_;
  Clock::time_point last_look_;
  std::map<int, Inquiry> inquiries_;  // by rank
};

}  // namespace lockstep::backends
