// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/blocking_call.hpp"

#include "platform/mpi/mpi.hpp"
#include "platform/mpi/wait_monitor.hpp"

namespace lockstep {
namespace {

std::shared_ptr<Watchdog> watchdog_of(const MpiGroup& group) {
  const auto& monitor = group.handle().monitor;
  return monitor == nullptr ? nullptr : monitor->watchdog();
}

}  // namespace

BlockingCall::BlockingCall(std::shared_ptr<Watchdog> watchdog, std::string call) : watchdog_(std::move(watchdog)) {
  if (watchdog_ != nullptr) watchdog_->enter(std::move(call));
}

BlockingCall::BlockingCall(const MpiGroup& group, std::string call)
    : BlockingCall(watchdog_of(group), std::move(call)) {}

BlockingCall::~BlockingCall() {
  if (watchdog_ != nullptr) watchdog_->leave_call();
}

void BlockingCall::touch() {
  if (watchdog_ != nullptr) watchdog_->touch();
}

std::shared_ptr<FlightRecorder> flight_recorder_of(const MpiGroup& group) {
  const std::shared_ptr<Watchdog> watchdog = watchdog_of(group);
  return watchdog == nullptr ? nullptr : watchdog->record();
}

}  // namespace lockstep
