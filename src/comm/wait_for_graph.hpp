// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/observer.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep {

/// Finds the rank at fault when this rank waits in vain: it asks the ranks that it waits for which ranks they wait for,
/// and so on, until it reaches a rank that does not answer or that waits for no other rank. Without this, a rank would
/// accuse a peer that is itself only waiting.
class WaitForGraph {
 public:
  /// The ranks at fault, as far as they are known.
  struct Verdict {
    std::vector<int> silent;  ///< these ranks do not answer
    std::vector<int> absent;  ///< these ranks answer and have no operation pending
    std::vector<int> busy;    ///< these ranks answer and have operations pending, maybe on another communicator
    bool is_open = false;     ///< an answer may still come

    /// Returns the ranks to name; empty if the awaited ranks all wait for each other.
    [[nodiscard]] const std::vector<int>& culprits() const {
      if (!silent.empty()) return silent;
      return absent.empty() ? busy : absent;
    }
    /// Returns text such as "rank 3 on host2 does not answer: …"; empty if there are no culprits.
    [[nodiscard]] std::string text(const ControlChannel& control) const;
    [[nodiscard]] bool is_busy_alone() const { return silent.empty() && absent.empty() && !busy.empty(); }
  };

  /// Returns how long a rank with this deadline waits for an answer, which is also how long an answer stays valid.
  static Clock::duration patience_for(std::chrono::duration<double> deadline) {
    constexpr std::chrono::duration<double> most(2);
    return std::chrono::duration_cast<Clock::duration>(std::min(deadline / 8, most));
  }

  /// @param patience  how long an answer is waited for, and how long it stays valid
  explicit WaitForGraph(Clock::duration patience) : patience_(patience) {}

  /// Sends the questions that have not been sent yet and reads the answers. @throws Error{transport}
  Verdict follow(ControlChannel& control, const std::vector<int>& awaited, Clock::time_point now);
  [[nodiscard]] Clock::duration patience() const { return patience_; }
  /// Forgets all answers, because this rank has received what it waited for.
  void forget() { inquiries_.clear(); }

 private:
  struct Inquiry {
    Clock::duration waited{};  // only the time during which this rank polled
    bool is_answered = false;
    ControlChannel::Standing standing;
  };
  const Inquiry& inquire(ControlChannel& control, int rank, Clock::duration passed);

  Clock::duration patience_;
  Clock::time_point last_look_;
  std::map<int, Inquiry> inquiries_;  // by rank
};

}  // namespace lockstep
