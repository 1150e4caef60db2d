// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "platform/node_memory/control_channel.hpp"
#include "platform/ranks/tasks.hpp"

namespace lockstep {

/// A rank's wait for a call that all ranks of a group make, before there is a communicator with a control channel. It
/// finds out which ranks are missing. It is a state machine without a clock, a thread or MPI.
///
/// A rank whose deadline passes asks the other ranks of its group. Ranks that wait too, in any group, answer with the
/// task that they wait for. Ranks that do not answer within a grace period compute, read a file, are stopped or dead.
/// At most eight ranks of a group, its listeners, ask all of it, so that a large job sends few messages; the other
/// ranks ask the listeners. The first listener that waits gives the verdict, which the others repeat as a consequence.
/// A rank whose call completes meanwhile continues and takes its question back.
class WaitForRanks {
 public:
  using Seconds = Tasks::Seconds;
  using Time = std::chrono::steady_clock::time_point;

  /// The rank that waits, in the set from which all groups are made.
  struct Waiter {
    int rank;
    std::string host;
    const Tasks& tasks;
    const std::vector<std::string>& hosts;  ///< by rank; empty while they are unknown
  };
  /// The ranks that wait for each other.
  struct Group {
    std::uint64_t number;             ///< the same on all its ranks
    const std::vector<int>& members;  ///< for each rank of the group, its rank in the set above
    Seconds deadline;
  };

  /// @param link    carries texts between the ranks of the set; its other texts are left out
  /// @param number  of this wait, which no other wait of this rank has
  WaitForRanks(ControlLink& link, Waiter waiter, const Group& group, std::uint64_t number, Time now);

  /// Sends and receives what is due. Call it every few milliseconds.
  /// @param is_complete  whether this rank's call has completed
  /// @return whether the rank may go on; always false while the call has not completed
  /// @throws Error{timeout} that names the missing ranks; Error{transport}
  bool advance(Time now, bool is_complete);

 private:
  struct Text;
  struct Other {
    std::string host;
    std::string what;
    bool waits_here = false;  ///< whether it waits in the same group
  };

  [[nodiscard]] bool has_passed(Time since, Seconds time) const { return now_ - since > time; }
  [[nodiscard]] bool is_late() const { return has_passed(begin_, deadline_); }
  [[nodiscard]] std::vector<int> listeners() const;
  [[nodiscard]] bool is_listener() const;
  void leave_out_own_absence(Time now);
  void tell(const std::set<int>& ranks, char kind, std::uint64_t wait, const std::string& text);
  void read(const Text& text);
  void ask();
  void judge();
  bool may_go_on();
  void take_questions_back();
  [[nodiscard]] bool does_earlier_listener_wait() const;
  [[nodiscard]] std::string host_of(int rank) const;
  [[nodiscard]] std::string names_of(const std::vector<int>& ranks) const;
  [[nodiscard]] std::vector<int> present() const;
  [[nodiscard]] Error who_is_missing() const;
  [[nodiscard]] std::string complaint(const std::vector<int>& missing, bool are_some_elsewhere) const;

  ControlLink& link_;
  Waiter waiter_;
  const std::vector<int>& members_;
  Seconds deadline_;
  Seconds grace_;
  std::uint64_t group_;
  std::uint64_t number_;
  Time now_;
  Time begin_;
  std::optional<Time> asked_at_;
  std::optional<Time> completed_at_;
  std::set<int> asked_;
  std::set<int> questions_;      // members whose deadline has passed
  std::set<int> callers_;        // ranks that have asked, in any group
  std::map<int, Other> others_;  // ranks that have asked or answered
};

}  // namespace lockstep
