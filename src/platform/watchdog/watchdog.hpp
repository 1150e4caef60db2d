// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "platform/node_memory/flight_recorder.hpp"
#include "platform/node_memory/node_memory.hpp"
#include "platform/watchdog/rank_report.hpp"
#include "platform/watchdog/side_channel.hpp"

namespace lockstep {

/// The ranks of a job, by rank, and how to ask their watchdogs.
struct JobTable {
  std::vector<std::string> hosts;
  std::vector<std::string> addresses;  ///< `SideChannel::address()`
};

/// Asks the watchdogs of all ranks what their ranks do, and explains the answers. It takes at most 2 s.
/// @param known    reports that are known already
/// @param history  as for explain_ranks
std::string explain_job(const JobTable& job, std::vector<RankReport> known, std::size_t history);

std::string to_json(const JobTable& job);
/// Reads a table, whoever sent it: names of hosts are made fit to print. @return nothing if it is no table of a job
std::optional<JobTable> job_from_json(const std::string& text);

/// A thread that watches the process from the start of MPI on. It does not call MPI.
///
/// - It notices when the process has been in one of MPI's blocking calls for longer than the deadline, which happens if
///   another process stops in the middle of the same call.
/// - It notices when a rank with a task neither computes, reads nor writes for longer than the deadline: it waits for a
///   lock, or for a file that never answers. A rank that waits for other ranks polls, and notices by itself.
/// - It notices when the operations of a rank have waited for other ranks for some time, unless another rank has
///   noticed it first, and asked this one what it does.
/// - It writes down the stacks of a rank that has not advanced for half of the deadline, before an error unwinds them.
/// - It tells other watchdogs what its rank does, and the other ranks of its node.
class Watchdog {
 public:
  using Seconds = std::chrono::duration<double>;

  struct Options {
    Seconds deadline;       ///< two seconds are added, in which processes start and better informed ranks report first
    bool is_local = false;  ///< whether all ranks are on this host
    /// Called on the watchdog's thread, once. See WorldOptions::on_stuck. Null: nothing is reported.
    std::function<void(std::string_view)> on_stuck = nullptr;
    /// Called on the watchdog's thread. See WatchOptions::on_late. Null: nothing is reported.
    std::function<void(std::string_view)> on_late = nullptr;
    Seconds late_after{60};
  };
  /// @throws as SideChannel
  explicit Watchdog(Options options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  /// How other watchdogs reach this one; empty if no socket could be opened.
  [[nodiscard]] const std::string& address() const { return channel_.address(); }

  /// The place of this process in its job.
  struct Membership {
    int rank = 0;
    JobTable job;
    std::vector<int> node;  ///< the ranks of this node whose records are shared
    std::vector<std::shared_ptr<FlightRecorder>> records;
    std::shared_ptr<FlightRecorder> own;          ///< one of them
    std::optional<int> receiver_of_heartbeats{};  ///< a rank of another node; nothing if there is none
  };
  /// Joins the job.
  void join(Membership membership);
  /// Leaves the job: the records are not read any more.
  void leave();
  /// This rank's record; null before join() and after leave().
  [[nodiscard]] std::shared_ptr<FlightRecorder> record() const;

  /// Explains what all ranks of the job do, as text. It takes at most 2 s. Empty before join() and after leave(). Any
  /// thread but the watchdog's own may call it.
  [[nodiscard]] std::string explain_job() const;

  /// Enters a blocking call. Calls may be nested; the innermost counts.
  void enter(std::string call);
  void leave_call();
  /// Restarts the time of the current call, which has made progress.
  void touch();

 private:
  struct Call {
    std::string name;
    Clock::time_point begin;
  };

  void watch();
  [[nodiscard]] bool notices_a_hang(Clock::time_point now);
  void look_at_the_rank(Clock::time_point now);
  [[nodiscard]] std::optional<std::string> notices_a_wait(Clock::time_point now);
  void send_heartbeat();
  [[nodiscard]] std::string answer(Purpose question, bool is_local);
  [[nodiscard]] RankReport own_report() const;
  [[nodiscard]] std::vector<RankReport> reports() const;
  [[nodiscard]] std::string complaint(const Call& call) const;
  [[nodiscard]] std::string complaint_of_idle_rank(Seconds idle) const;

  Seconds suspect_after_;  // the rank has not advanced for so long
  Seconds deadline_;
  Seconds late_after_;
  Seconds interval_;
  std::function<void(std::string_view)> on_stuck_;
  std::function<void(std::string_view)> on_late_;
  SideChannel channel_;
  bool takes_stacks_;

  mutable std::mutex mutex_;  // guards what follows
  bool ends_ = false;
  bool has_reported_ = false;
  std::vector<Call> calls_;
  std::optional<Membership> membership_;

  // What the thread has seen of the rank.
  std::uint64_t advances_ = 0;
  std::uint64_t operation_advances_ = 0;
  std::uint64_t polls_ = 0;
  std::uint64_t work_ = 0;
  Clock::time_point advanced_at_;  // when it last advanced
  Clock::time_point polled_at_;    // when it last polled
  Clock::time_point worked_at_;    // when it last advanced, polled, computed, read or wrote
  // The report of a rank that is suspect, or was until its last operation failed, and when it was made.
  std::optional<RankReport> suspicion_;
  Clock::time_point suspected_at_;
  Clock::time_point asked_at_;  // when another process last asked what the ranks do
  bool has_told_ = false;       // of a wait, and the rank has not advanced since
  std::thread thread_;
};

}  // namespace lockstep
