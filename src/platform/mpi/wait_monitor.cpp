// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/wait_monitor.hpp"

#include <deque>
#include <sstream>

#include "platform/mpi/blocking_call.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/mpi/ulfm.hpp"

namespace lockstep {
namespace {

constexpr char message_separator = '\0';

std::shared_ptr<Watchdog> watchdog_of(const std::shared_ptr<WaitMonitor>& monitor) {
  return monitor == nullptr ? nullptr : monitor->watchdog();
}

}  // namespace

std::string to_text(const WaitMessage& message) {
  std::ostringstream text;
  text << static_cast<char>(message.kind) << message.group << ' ' << message.wait << message_separator << message.host
       << message_separator << message.text;
  return text.str();
}

std::optional<WaitMessage> wait_message_from(const std::string& text) {
  const std::size_t first = text.find(message_separator);
  const std::size_t second = first == std::string::npos ? first : text.find(message_separator, first + 1);
  if (second == std::string::npos || std::string("QAGV").find(text.front()) == std::string::npos) return std::nullopt;
  WaitMessage message{.kind = static_cast<MessageKind>(text.front()),
                      .host = text.substr(first + 1, second - first - 1),
                      .text = text.substr(second + 1)};
  std::istringstream(text.substr(1, first - 1)) >> message.group >> message.wait;
  return message;
}

WaitMonitor::WaitMonitor(MPI_Comm communicator, int tag, std::shared_ptr<Watchdog> watchdog)
    : Tasks(std::move(watchdog)), communicator_(communicator), tag_(tag) {
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

void WaitMonitor::close() {
  if (!has_told_) LOCKSTEP_MPI(MPI_Comm_free(&communicator_));
}

/// Sends without waiting for the receiver, which may never come, so the text is kept until the program ends.
void WaitMonitor::tell(int rank, const std::string& text) {
  static auto& kept = *std::make_unique<std::deque<std::string>>().release();
  const std::string& sent = kept.emplace_back(text);
  has_told_ = true;
  MPI_Request request = MPI_REQUEST_NULL;
  LOCKSTEP_MPI(MPI_Isend(sent.data(), static_cast<int>(sent.size()), MPI_CHAR, rank, tag_, communicator_, &request));
  LOCKSTEP_MPI(MPI_Request_free(&request));
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
