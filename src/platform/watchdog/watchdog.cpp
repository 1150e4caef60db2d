// SPDX-License-Identifier: Apache-2.0
#include "platform/watchdog/watchdog.hpp"

#include <pthread.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/nearest.hpp"
#include "base/wrapped.hpp"
#include "platform/machine/launch.hpp"
#include "platform/tcp/tcp.hpp"

namespace lockstep {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobTable, hosts, addresses)

namespace {

constexpr std::chrono::milliseconds time_to_answer{1500};
constexpr std::chrono::milliseconds between_heartbeats{1000};
constexpr std::chrono::seconds time_of_an_end{10};  // in which a rank ends after an error
constexpr const char* silent = "silent";            // the state of a rank that only its heartbeats tell of

/// Delays the report of each rank by its number. The first rank has about half a second for its launcher to end the
/// job, so that it is usually the only one that reports.
std::chrono::duration<double> turn_of_this_rank() {
  const int number = process_number(read_environment()).value_or(0);
  return number == 0 ? Watchdog::Seconds(0) : Watchdog::Seconds(0.4 + 0.1 * std::min(number, 6));
}

/// A table for a process of this user, which may not have the secret of the job in its environment.
JobTable with_secrets(JobTable job) {
  for (std::string& text : job.addresses) {
    if (text.empty()) continue;
    TcpAddress address = tcp_address_from(text);
    address.secret = secret_of(address);
    text = to_text(address);
  }
  return job;
}

std::string this_process() {
  const auto number = process_number(read_environment());
  return (number ? "rank " + std::to_string(*number) + " on " : "a process on ") + host_name();
}

std::string whole_seconds(Watchdog::Seconds time) { return format_text("%.0f s", time.count()); }

/// Adds a report unless its rank, or somebody who is nearer to it, has reported already.
void add(std::vector<RankReport>& reports, RankReport report) {
  const auto distance = [](const RankReport& r) { return r.source.empty() ? 0 : r.state != silent ? 1 : 2; };
  const auto known = std::find_if(reports.begin(), reports.end(), [&](const auto& r) { return r.rank == report.rank; });
  if (known == reports.end()) return reports.push_back(std::move(report));
  if (distance(report) < distance(*known)) *known = std::move(report);
}

}  // namespace

std::string to_json(const JobTable& job) {
  return nlohmann::json(job).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<JobTable> job_from_json(const std::string& text) {
  try {
    auto job = nlohmann::json::parse(text).get<JobTable>();
    if (job.hosts.empty() || job.addresses.size() != job.hosts.size()) return std::nullopt;
    for (std::string& host : job.hosts) host = echo(host);
    return job;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string explain_job(const JobTable& job, std::vector<RankReport> known, std::size_t history) {
  std::vector<std::string> addresses = job.addresses;
  for (const RankReport& report : known)
    if (report.source.empty()) addresses[static_cast<std::size_t>(report.rank)].clear();
  const auto answers = ask_all(addresses, Purpose::rank_report, time_to_answer);
  for (const auto& answer : answers) {
    if (!answer) continue;
    for (RankReport& report : reports_from_json(*answer, job.hosts.size()).value_or(std::vector<RankReport>()))
      add(known, std::move(report));
  }
  std::sort(known.begin(), known.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return explain_ranks(job.hosts, known, history);
}

Watchdog::Watchdog(Options options)
    : suspect_after_(options.deadline / 2),
      deadline_(options.deadline + Seconds(2) + turn_of_this_rank()),
      late_after_(options.late_after),
      interval_(std::clamp<Seconds>((options.on_late ? std::min(deadline_, late_after_) : deadline_) / 20,
                                    Seconds(0.05), Seconds(1))),
      on_stuck_(std::move(options.on_stuck)),
      on_late_(std::move(options.on_late)),
      channel_(options.is_local),
      takes_stacks_(prepare_for_stacks()),
      advanced_at_(Clock::now()),
      worked_at_(Clock::now()),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  channel_.wake();
  thread_.join();
}

void Watchdog::join(Membership membership) {
  const std::lock_guard lock(mutex_);
  membership.own->set_process(getpid());
  membership_ = std::move(membership);
  advanced_at_ = worked_at_ = Clock::now();
}

void Watchdog::leave() {
  const std::lock_guard lock(mutex_);
  membership_.reset();
}

std::shared_ptr<FlightRecorder> Watchdog::record() const {
  const std::lock_guard lock(mutex_);
  return membership_ ? membership_->own : nullptr;
}

std::string Watchdog::explain_job() const {
  std::optional<JobTable> job;
  {
    const std::lock_guard lock(mutex_);
    if (membership_) job = membership_->job;
  }
  constexpr std::size_t history = 3;
  return job ? lockstep::explain_job(*job, {}, history) : std::string();
}

void Watchdog::enter(std::string call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back({std::move(call), Clock::now()});
}

void Watchdog::leave_call() {
  const std::lock_guard lock(mutex_);
  calls_.pop_back();
  if (!calls_.empty()) calls_.back().begin = Clock::now();
}

void Watchdog::touch() {
  const std::lock_guard lock(mutex_);
  if (!calls_.empty()) calls_.back().begin = Clock::now();
}

/// Polls at an interval, so that neither entering a call nor an operation need wake this thread. The time in which the
/// process was stopped does not count.
void Watchdog::watch() {
  pthread_setname_np(pthread_self(), "watchdog");
  const auto interval = std::chrono::duration_cast<std::chrono::milliseconds>(interval_);
  Clock::time_point looked = Clock::now();
  Clock::time_point heartbeat;
  for (;;) {
    channel_.serve(interval, [this](Purpose question, bool is_local) { return answer(question, is_local); });
    std::unique_lock lock(mutex_);
    if (ends_) return;
    const Clock::time_point now = Clock::now();
    const auto away = now - std::exchange(looked, now) - interval;
    if (away > Seconds(0.5)) {
      if (!calls_.empty()) calls_.back().begin += away;
      advanced_at_ += away;
      worked_at_ += away;
    }
    look_at_the_rank(now);
    if (membership_ && now - heartbeat >= between_heartbeats) {
      heartbeat = now;
      send_heartbeat();
    }
    if (on_stuck_ && !has_reported_) has_reported_ = notices_a_hang(now);
    if (const auto wait = notices_a_wait(now)) {
      const JobTable job = membership_->job;
      std::vector<RankReport> known = reports();
      lock.unlock();  // the rank may go on, and note it
      constexpr std::size_t history = 3;
      on_late_(*wait + '\n' + lockstep::explain_job(job, std::move(known), history));
    }
  }
}

void Watchdog::look_at_the_rank(Clock::time_point now) {
  if (!membership_) return;
  const FlightRecorder& record = *membership_->own;
  const std::uint64_t advances = record.advances();
  const std::uint64_t polls = record.polls();
  if (std::exchange(advances_, advances) != advances) {
    advanced_at_ = worked_at_ = now;
    has_told_ = false;
    // A rank whose operation has failed ends, and advances in this. What it did before is asked for then.
    const std::uint64_t by_operations = record.operation_advances();
    const bool has_recovered = std::exchange(operation_advances_, by_operations) != by_operations;
    if (has_recovered || now - suspected_at_ > time_of_an_end) suspicion_.reset();
  }
  if (std::exchange(polls_, polls) != polls) polled_at_ = worked_at_ = now;
  if (worked_at_ != now) {
    const std::uint64_t work = work_of_other_threads();
    if (std::exchange(work_, work) != work) worked_at_ = now;
  }
  if (suspicion_ || now - advanced_at_ <= suspect_after_) return;
  suspicion_ = own_report();
  suspected_at_ = now;
}

/// Calls on_stuck if the rank hangs. @return whether it does
bool Watchdog::notices_a_hang(Clock::time_point now) {
  std::string text;
  if (!calls_.empty() && now - calls_.back().begin >= deadline_) {
    text = complaint(calls_.back());
  } else if (membership_ && calls_.empty() && !membership_->own->task().empty() && now - worked_at_ >= deadline_) {
    text = complaint_of_idle_rank(now - worked_at_);
  } else {
    return false;
  }
  if (membership_) {
    if (advanced_at_ > suspected_at_) suspicion_.reset();  // it was of another place, which the rank has left
    constexpr std::size_t history = 3;
    text += '\n' + lockstep::explain_job(membership_->job, reports(), history);
  }
  on_stuck_(text);
  return true;
}

/// The first line of what on_late is called with, if this rank has waited for so long. The first rank to notice asks
/// the others, which keep quiet then.
std::optional<std::string> Watchdog::notices_a_wait(Clock::time_point now) {
  const Seconds waited = now - advanced_at_;
  if (!on_late_ || !membership_ || has_told_) return {};
  // All ranks look at the same interval, so the first ones take turns.
  constexpr int most_turns = 8;
  if (waited < late_after_ + 1.5 * interval_ * std::min(membership_->rank, most_turns) ||
      now - polled_at_ > 2 * interval_)
    return {};
  if (asked_at_ > advanced_at_ + late_after_ / 2) return {};
  const auto operations = membership_->own->operations();
  const auto pending =
      std::find_if(operations.begin(), operations.end(), [](const auto& one) { return one.is_pending; });
  if (pending == operations.end()) return {};
  has_told_ = true;
  return "rank " + std::to_string(membership_->rank) + " on " +
         membership_->job.hosts[static_cast<std::size_t>(membership_->rank)] + " has waited for other ranks for " +
         whole_seconds(waited) + ", and goes on waiting:";
}

std::string Watchdog::complaint(const Call& call) const {
  const std::string stopped = stopped_neighbors();
  std::string cause = call.name == "MPI_Init" ? "has not started, or is stopped or dead"
                                              : "is stopped or dead, or has not come to this call";
  if (!stopped.empty()) {
    cause += ": " + stopped;
  } else if (call.name != "MPI_Init") {
    cause += ": does every rank make the same groups, and does none leave its function early?";
  }
  return this_process() + ": " + call.name + " has not returned after " + whole_seconds(Clock::now() - call.begin) +
         ", so another process of the job " + cause;
}

std::string Watchdog::complaint_of_idle_rank(Seconds idle) const {
  return this_process() + ": no thread has computed, read or written for " + whole_seconds(idle) + " while " +
         membership_->own->task() + ": it waits for a lock, or for a file or device that does not answer";
}

void Watchdog::send_heartbeat() {
  if (!membership_->receiver_of_heartbeats) return;
  RankReport report = report_from(*membership_->own, membership_->rank,
                                  membership_->job.hosts[static_cast<std::size_t>(membership_->rank)]);
  report.history.clear();
  const auto receiver = static_cast<std::size_t>(*membership_->receiver_of_heartbeats);
  const std::string sender = std::to_string(report.rank);
  channel_.send_heartbeat(membership_->job.addresses[receiver], sender + ' ' + to_json({std::move(report)}));
}

std::string Watchdog::answer(Purpose question, bool is_local) {
  const std::lock_guard lock(mutex_);
  if (!membership_) return {};
  if (question == Purpose::rank_report) {
    asked_at_ = Clock::now();
    return to_json(reports());
  }
  if (question == Purpose::job_table && is_local) return to_json(with_secrets(membership_->job));
  return {};
}

RankReport Watchdog::own_report() const {
  const std::string& host = membership_->job.hosts[static_cast<std::size_t>(membership_->rank)];
  RankReport report = report_from(*membership_->own, membership_->rank, host);
  if (takes_stacks_) report.stacks = stacks_of_other_threads();
  return report;
}

/// Returns the report of this rank, those of the other ranks of its node, and the heartbeats that it has received.
std::vector<RankReport> Watchdog::reports() const {
  const JobTable& job = membership_->job;
  const std::string me = "rank " + std::to_string(membership_->rank);
  std::vector<RankReport> all = {suspicion_ ? *suspicion_ : own_report()};
  if (suspicion_) all.front().seconds += Seconds(Clock::now() - suspected_at_).count();
  for (std::size_t i = 0; i < membership_->records.size(); ++i) {
    const int rank = membership_->node[i];
    if (rank == membership_->rank) continue;
    all.push_back(report_from(*membership_->records[i], rank, job.hosts[static_cast<std::size_t>(rank)]));
    all.back().source = me + ", which shares its node";
  }
  for (const auto& [rank, heartbeat] : channel_.heartbeats()) {
    auto sent = reports_from_json(heartbeat.text.substr(heartbeat.text.find(' ') + 1), job.hosts.size());
    if (!sent || sent->size() != 1) continue;
    const Seconds age = Clock::now() - heartbeat.received;
    sent->front().state = silent;
    sent->front().source = me + ", which received its last heartbeat " + whole_seconds(age) + " ago";
    sent->front().seconds += age.count();
    all.push_back(std::move(sent->front()));
  }
  return all;
}

}  // namespace lockstep
