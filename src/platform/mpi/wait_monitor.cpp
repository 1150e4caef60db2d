// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/wait_monitor.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "platform/mpi/blocking_call.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/mpi/ulfm.hpp"

namespace lockstep {
namespace {

std::shared_ptr<Watchdog> watchdog_of(const std::shared_ptr<WaitMonitor>& monitor) {
  return monitor == nullptr ? nullptr : monitor->watchdog();
}

}  // namespace

WaitMonitor::WaitMonitor(MPI_Comm communicator, int tag, std::shared_ptr<Watchdog> watchdog)
    : Tasks(std::move(watchdog)), communicator_(communicator), link_(make_mpi_control_link(communicator, tag)) {
  LOCKSTEP_MPI(MPI_Comm_rank(communicator_, &rank_));
}

void WaitMonitor::add(MPI_Comm group) {
  const std::scoped_lock lock(mutex_);
  groups_.push_back(group);
}

void WaitMonitor::remove(MPI_Comm group) {
  const std::scoped_lock lock(mutex_);
  std::erase(groups_, group);
}

void WaitMonitor::revoke_all() {
  const std::scoped_lock lock(mutex_);
  for (const MPI_Comm group : groups_) revoke(group);
  revoke(communicator_);
}

void WaitMonitor::wait(MPI_Request& request, const WaitForRanks::Group& group) {
  const auto begin = std::chrono::steady_clock::now();
  WaitForRanks wait(*link_, {rank_, processor_name(), *this, hosts_}, group, ++waits_, begin);
  for (;;) {
    int is_complete = 0;
    LOCKSTEP_MPI(MPI_Test(&request, &is_complete, MPI_STATUS_IGNORE));  // true again for one that has completed
    const auto now = std::chrono::steady_clock::now();
    if (wait.advance(now, is_complete != 0)) return;
    // Ranks that were started together arrive in the first milliseconds.
    if (now - begin < std::chrono::milliseconds(5)) {
      std::this_thread::yield();
    } else {
      note_poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

BlockingCall::BlockingCall(std::shared_ptr<Watchdog> watchdog, std::string call) : watchdog_(std::move(watchdog)) {
  if (watchdog_ != nullptr) watchdog_->enter(std::move(call));
}

BlockingCall::BlockingCall(const std::shared_ptr<WaitMonitor>& monitor, std::string call)
    : BlockingCall(watchdog_of(monitor), std::move(call)) {}

BlockingCall::BlockingCall(const RankSet& group, std::string call)
    : BlockingCall(mpi_link(group).monitor, std::move(call)) {}

BlockingCall::~BlockingCall() {
  if (watchdog_ != nullptr) watchdog_->leave_call();
}

void BlockingCall::touch() {
  if (watchdog_ != nullptr) watchdog_->touch();
}

}  // namespace lockstep
