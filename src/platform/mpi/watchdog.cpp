// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/watchdog.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "platform/machine/launch.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/mpi/rendezvous.hpp"

namespace lockstep {
namespace {

/// Delays the report of each rank by its number. The first rank has about half a second for its launcher to end the
/// job, so that it is usually the only one that reports.
std::chrono::duration<double> turn_of_this_rank() {
  const int number = process_number(read_environment()).value_or(0);
  return number == 0 ? Watchdog::Seconds(0) : Watchdog::Seconds(0.4 + 0.1 * std::min(number, 6));
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

}  // namespace

Watchdog::Watchdog(Seconds deadline, std::function<void(std::string_view)> on_stuck)
    : deadline_(deadline + Seconds(2) + turn_of_this_rank()),
      on_stuck_(std::move(on_stuck)),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void Watchdog::enter(std::string call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back({std::move(call), Clock::now()});
}

void Watchdog::leave() {
  const std::lock_guard lock(mutex_);
  calls_.pop_back();
  if (!calls_.empty()) calls_.back().begin = Clock::now();
}

void Watchdog::touch() {
  const std::lock_guard lock(mutex_);
  if (!calls_.empty()) calls_.back().begin = Clock::now();
}

/// Polls at an interval, so that entering a call need not wake this thread. The time in which the process was stopped
/// does not count.
void Watchdog::watch() {
  const auto interval = std::clamp<Seconds>(deadline_ / 20, Seconds(0.05), Seconds(2));
  std::unique_lock lock(mutex_);
  Clock::time_point looked = Clock::now();
  while (!ended_.wait_for(lock, interval, [this] { return ends_; })) {
    const Clock::time_point now = Clock::now();
    const auto away = now - std::exchange(looked, now) - std::chrono::duration_cast<Clock::duration>(interval);
    if (!calls_.empty() && away > Seconds(0.5)) calls_.back().begin += away;
    if (calls_.empty() || Clock::now() - calls_.back().begin < deadline_) continue;
    const std::string text = complaint(calls_.back());
    lock.unlock();
    return on_stuck_(text);
  }
}

std::string Watchdog::complaint(const Call& call) const {
  std::array<char, 32> seconds{};
  const Seconds waited = Clock::now() - call.begin;
  std::snprintf(seconds.data(), seconds.size(), "%.0f s", waited.count());
  const auto number = process_number(read_environment());
  const std::string who = (number ? "rank " + std::to_string(*number) + " on " : "a process on ") + host_name();
  const std::string stopped = stopped_neighbors();
  std::string cause = call.name == "MPI_Init" ? "has not started, or is stopped or dead"
                                              : "is stopped or dead, or has not come to this call";
  if (!stopped.empty()) {
    cause += ": " + stopped;
  } else if (call.name != "MPI_Init") {
    cause += ": does every rank make the same groups, and does none leave its function early?";
  }
  return who + ": " + call.name + " has not returned after " + seconds.data() + ", so another process of the job " +
         cause;
}

BlockingCall::BlockingCall(std::shared_ptr<Watchdog> watchdog, std::string call) : watchdog_(std::move(watchdog)) {
  if (watchdog_ != nullptr) watchdog_->enter(std::move(call));
}

BlockingCall::BlockingCall(const MpiGroup& group, std::string call)
    : BlockingCall(group.handle().rendezvous == nullptr ? nullptr : group.handle().rendezvous->watchdog(),
                   std::move(call)) {}

BlockingCall::~BlockingCall() {
  if (watchdog_ != nullptr) watchdog_->leave();
}

void BlockingCall::touch() {
  if (watchdog_ != nullptr) watchdog_->touch();
}

}  // namespace lockstep
