// SPDX-License-Identifier: Apache-2.0
// This file implements the wait of one rank for one call, and how it finds out which ranks are missing.
#include <algorithm>
#include <set>

#include "base/nearest.hpp"
#include "base/wrapped.hpp"
#include "platform/machine/launch.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/mpi/wait_monitor.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = WaitMonitor::Seconds;

constexpr std::size_t most_listeners = 8;

/// The wait of one rank for one call.
class Wait {
 public:
  Wait(WaitMonitor& monitor, const WaitMonitor::Group& group)
      : monitor_(monitor),
        members_(group.members),
        listeners_(std::min(members_.size(), most_listeners)),
        deadline_(group.deadline + monitor.extra()),
        grace_(std::clamp(deadline_ / 4, Seconds(0.5), Seconds(1))),
        group_(group.number),
        number_(monitor.next_wait()) {}

  void run(MPI_Request& request) {
    int complete = 0;
    for (;; pause()) {
      if (complete == 0) LOCKSTEP_MPI(MPI_Test(&request, &complete, MPI_STATUS_IGNORE));
      if (complete != 0) take_questions_back();
      leave_out_own_absence();
      hear();
      if (complete != 0 && may_go_on()) return;
      if (complete != 0) continue;
      if (!asked_at_ && (is_late() || (is_listener() && !questions_.empty()))) ask();
      if (asked_at_) judge();
    }
  }

 private:
  struct Other {
    std::string host;
    std::string what;
    bool waits_here = false;  ///< whether it waits in the same group
  };

  static bool passed(Clock::time_point since, Seconds time) { return Clock::now() - since > time; }
  [[nodiscard]] bool is_late() const { return passed(begin_, deadline_); }
  [[nodiscard]] std::vector<int> listeners() const { return {members_.begin(), members_.begin() + listeners_}; }
  [[nodiscard]] bool is_listener() const { return is_one(monitor_.rank(), listeners()); }
  static bool is_one(int rank, const std::vector<int>& of) { return std::find(of.begin(), of.end(), rank) != of.end(); }

  /// Extends deadlines by the time in which this process was stopped, because it did not wait then.
  void leave_out_own_absence() {
    const Clock::time_point now = Clock::now();
    const auto away = now - std::exchange(polled_at_, now);
    if (away > Seconds(0.5)) begin_ += away;
    if (away > Seconds(0.5) && asked_at_) *asked_at_ += away;
  }

  /// Yields in the first milliseconds, in which ranks that were started together arrive, and sleeps afterwards.
  void pause() const {
    if (passed(begin_, std::chrono::milliseconds(5))) {
      monitor_.note_poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else {
      std::this_thread::yield();
    }
  }

  void tell(int rank, MessageKind kind, std::uint64_t wait) {
    monitor_.tell(rank, to_text(WaitMessage{kind, group_, wait, processor_name(), monitor_.what()}));
  }

  void hear() {
    for (;;) {
      int found = 0;
      MPI_Status status;
      LOCKSTEP_MPI(MPI_Iprobe(MPI_ANY_SOURCE, monitor_.tag(), monitor_.communicator(), &found, &status));
      if (found == 0) return;
      int length = 0;
      LOCKSTEP_MPI(MPI_Get_count(&status, MPI_CHAR, &length));
      std::string text(static_cast<std::size_t>(length), ' ');
      LOCKSTEP_MPI(MPI_Recv(text.data(), length, MPI_CHAR, status.MPI_SOURCE, monitor_.tag(), monitor_.communicator(),
                            MPI_STATUS_IGNORE));
      if (const auto message = wait_message_from(text)) handle(status.MPI_SOURCE, *message);
    }
  }

  void handle(int from, const WaitMessage& message) {
    const bool is_of_this_group = message.group == group_;
    switch (message.kind) {
      case MessageKind::question:
        tell(from, MessageKind::answer, message.wait);
        if (is_of_this_group) questions_.insert(from);
        callers_.insert(from);
        others_[from] = {message.host, message.text, is_of_this_group};
        return;
      case MessageKind::answer:
        if (message.wait == number_) others_[from] = {message.host, message.text, is_of_this_group};
        return;
      case MessageKind::verdict:
        if (is_of_this_group || asked_.contains(from)) repeat(message.text);
        [[fallthrough]];
      case MessageKind::gone_on:
        others_.erase(from);
        questions_.erase(from);
        callers_.erase(from);
    }
  }

  [[noreturn]] static void repeat(const std::string& verdict) {
    const std::size_t end = verdict.find(';');
    std::vector<int> missing;
    for (std::size_t at = 0; at < end; ++at) {
      missing.push_back(std::atoi(verdict.c_str() + at));
      at = std::min(verdict.find(' ', at), end);
    }
    throw Error(ErrorCode::timeout, verdict.substr(end + 1), {.peers = std::move(missing)}).as_consequence();
  }

  void ask() {
    asked_at_ = Clock::now();
    for (const int member : is_listener() ? members_ : listeners()) {
      if (member == monitor_.rank()) continue;
      asked_.insert(member);
      tell(member, MessageKind::question, number_);
    }
  }

  /// Gives the verdict, or waits on. A listener waits for one grace period, and for two more if an earlier listener
  /// also waits and can give the verdict; so does a rank that is no listener.
  void judge() {
    if (!passed(*asked_at_, grace_)) return;
    if (!is_late() && questions_.empty()) return take_questions_back();
    const bool is_first = is_listener() && std::none_of(members_.begin(), members_.begin() + listeners_, [&](int rank) {
                            return is_before_me(rank) && waits_here(rank);
                          });
    if (!is_first && !passed(*asked_at_, 3 * grace_)) return;
    const Error verdict = who_is_missing();
    std::string peers;
    for (const int peer : verdict.context().peers) peers += std::to_string(peer) + ' ';
    std::set<int> to = callers_;
    to.insert(asked_.begin(), asked_.end());
    for (const int rank : to)
      monitor_.tell(rank,
                    to_text(WaitMessage{MessageKind::verdict, group_, number_, "", peers + ';' + verdict.message()}));
    throw Error(verdict);
  }

  [[nodiscard]] bool is_before_me(int rank) const {
    return std::find(members_.begin(), members_.end(), rank) <
           std::find(members_.begin(), members_.end(), monitor_.rank());
  }
  [[nodiscard]] bool waits_here(int rank) const {
    const auto found = others_.find(rank);
    return found != others_.end() && found->second.waits_here;
  }

  /// Whether this rank may continue after its call. A rank that has asked may have given up, unless it takes its
  /// question back.
  bool may_go_on() {
    if (!completed_at_) completed_at_ = Clock::now();
    if (questions_.empty()) return true;
    if (passed(*completed_at_, 3 * grace_)) throw Error(ErrorCode::timeout, complaint({}, false));
    return false;
  }

  void take_questions_back() {
    for (const int rank : asked_) tell(rank, MessageKind::gone_on, number_);
    asked_.clear();
    asked_at_.reset();
  }

  [[nodiscard]] std::string host_of(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    if (index < monitor_.hosts().size()) return monitor_.hosts()[index];
    const auto found = others_.find(rank);
    if (found == others_.end()) return rank == monitor_.rank() ? processor_name() : "";
    return found->second.host;
  }
  [[nodiscard]] std::string names_of(const std::vector<int>& ranks) const {
    return rank_names(ranks, [this](int rank) { return host_of(rank); });
  }

  /// Returns this rank and those that have answered.
  [[nodiscard]] std::vector<int> present() const {
    std::set<int> ranks{monitor_.rank()};
    for (const auto& [rank, other] : others_) ranks.insert(rank);
    return {ranks.begin(), ranks.end()};
  }

  [[nodiscard]] Error who_is_missing() const {
    std::vector<int> missing;
    std::map<std::string, std::vector<int>> elsewhere;  // ranks by the task for which they wait
    for (const int rank : asked_) {
      const auto found = others_.find(rank);
      if (found == others_.end()) {
        missing.push_back(rank);
      } else if (!found->second.waits_here) {
        elsewhere[found->second.what].push_back(rank);
      }
    }
    std::string others;
    std::vector<int> peers = missing;
    for (const auto& [what, ranks] : elsewhere) {
      others += "; " + names_of(ranks) + (ranks.size() == 1 ? " waits while " : " wait while ") + what;
      if (missing.empty()) peers.insert(peers.end(), ranks.begin(), ranks.end());
    }
    return Error(ErrorCode::timeout, complaint(missing, !elsewhere.empty()) + others, {.peers = std::move(peers)});
  }

  [[nodiscard]] std::string complaint(const std::vector<int>& missing, bool are_some_elsewhere) const {
    const std::string limit = format_text("%.3g s", deadline_.count());
    if (missing.empty() && are_some_elsewhere) {
      return "the ranks wait for each other in different places: " + names_of({monitor_.rank()}) + " has waited for " +
             limit + " while " + monitor_.what();
    }
    if (missing.empty())
      return "all ranks took part in " + monitor_.what() + ", but some later than " + limit + " after others";
    std::string text =
        names_of(missing) + (missing.size() == 1 ? " has not " : " have not ") + monitor_.undone() + " within " + limit;
    if (monitor_.hosts().empty()) text += "; " + names_of(present()) + " came";
    const std::string stopped = stopped_neighbors();
    return stopped.empty() ? text : text + "; " + stopped;
  }

  WaitMonitor& monitor_;
  const std::vector<int>& members_;
  std::size_t listeners_;
  Seconds deadline_;
  Seconds grace_;
  std::uint64_t group_;
  std::uint64_t number_;  // number of this wait
  Clock::time_point begin_ = Clock::now();
  Clock::time_point polled_at_ = begin_;
  std::optional<Clock::time_point> asked_at_;
  std::optional<Clock::time_point> completed_at_;
  std::set<int> asked_;
  std::set<int> questions_;      // members whose deadline has passed
  std::set<int> callers_;        // ranks that have asked, in any group
  std::map<int, Other> others_;  // ranks that have asked or answered
};

}  // namespace

void WaitMonitor::wait(MPI_Request& request, const Group& group) { Wait(*this, group).run(request); }

}  // namespace lockstep
