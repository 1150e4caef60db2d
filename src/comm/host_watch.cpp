// SPDX-License-Identifier: Apache-2.0
// How a rank learns that it waits in vain, and how the others learn of its failures.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "comm/host_communicator.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::backends {

/// It may be the last that is heard of this rank.
void HostCommunicator::tell_now() noexcept {
  if (options_.control) options_.control->tell_now();
}

void HostCommunicator::abort(std::string_view why) noexcept {
  if (!options_.control) return;
  options_.control->raise(ErrorCode::transport, why, {});
  if (!progress_->is_known_to_be_of_this_thread()) return;
  const Progress::Exclusive exclusive(*progress_);
  tell_now();
}

void HostCommunicator::raise(const std::exception_ptr& error) noexcept {
  if (options_.control) options_.control->raise(error);
}

void HostCommunicator::check_thread(std::string_view operation) const {
  if (progress_->is_of_this_thread()) return;
  throw Error(
      ErrorCode::invalid_argument,
      "submitted on another thread than the one that uses this rank's communicators: all of them, and the groups "
      "split from each other, are for one thread",
      {.operation = std::string(operation), .rank = rank().value, .host = options_.hostname});
}

/// Before anything is sent: whether this rank can go on, as far as it knows. The word of its node is looked at always,
/// for messages no more often than a clock allows.
void HostCommunicator::check_usable(std::string_view operation) {
  if (closed_) {
    throw Error(ErrorCode::transport, "the communicator is closed",
                {.operation = std::string(operation), .rank = rank().value, .host = options_.hostname});
  }
  constexpr std::chrono::milliseconds between_messages{5};
  if (options_.control && !poison_) {
    if (options_.control->heard() || (options_.control->has_post() && progress_->now() - last_heed_ > between_messages))
      look_round(progress_->now());
  }
  if (poison_) std::rethrow_exception(poison_);
}

bool HostCommunicator::look_round(Clock::time_point now) noexcept {
  if (closed_) return false;
  try {
    heed(now);
    if (!idle()) check_deadline(now);
    return false;
  } catch (...) {
    if (!poison_) fail(current_exception_of(rank().value, options_.hostname));
  }
  return true;
}

/// Passes on what there is to tell. @throws Error if that ends this communicator
void HostCommunicator::heed(Clock::time_point now) {
  if (!options_.control) return;
  last_heed_ = now;
  options_.control->tend();
  if (poison_) return;
  std::optional<Error> alarm = options_.control->heard();
  if (!alarm) alarm = options_.control->early_close(submitted_);
  if (!alarm) {
    std::erase_if(options_.control->questions(), [this](const auto& question) { return is_answered(question); });
    return;
  }
  const HostOperation* const first = first_under_way();
  if (first == nullptr) throw Error(*alarm);
  // Who gives up first need not have waited for the rank at fault: each names whom it waited for itself.
  throw alarm->naming_also(awaited()).of_operation(first->identity());
}

/// The oldest that takes turns and has not ended; null where there is none.
HostOperation* HostCommunicator::oldest_pending() const {
  const auto is_pending = [](const HostOperation* o) { return o->state() == Operation::State::pending; };
  const auto oldest = std::find_if(under_way_.begin(), under_way_.end(), is_pending);
  return oldest == under_way_.end() || !(*oldest)->begun() ? nullptr : *oldest;
}

/// The ranks that the oldest operation waits for, and messages. What younger operations wait for may wait for that.
std::vector<int> HostCommunicator::awaited() const {
  std::vector<int> ranks;
  if (const HostOperation* const oldest = oldest_pending()) oldest->add_awaited(ranks);
  for (const HostOperation* const message : messages_under_way_)
    if (message->state() == Operation::State::pending) message->add_awaited(ranks);
  return ranks;
}

/// Whether what another rank has asked is of no more interest. @throws Error{mismatch} if it calls something else
bool HostCommunicator::is_answered(const ControlChannel::Question& question) const {
  const ControlChannel::Call& theirs = question.call;
  if (theirs.number >= submitted_) return false;
  if (submitted_ - theirs.number > remembered) return true;
  const Signature& ours = calls_[theirs.number % remembered];
  if (ours.hash == theirs.hash || ours.hash == 0) return true;
  const CollectiveKind kind = kind_of(ours);
  throw disagreement(question.rank, {.call = theirs.what, .hash = theirs.hash}, ours)
      .of_operation({.operation = std::string(name(kind))});
}

/// Who waits in vain asks those whom it waits for whether they call the same.
/// @param since  when the oldest operation must not have advanced
void HostCommunicator::ask(Clock::time_point since) {
  HostOperation* const oldest = oldest_pending();
  if (!options_.control || oldest == nullptr || !oldest->is_silent_since(since)) return;
  const Signature& ours = oldest->signature();
  if (ours.hash == 0 || oldest->has_asked()) return;
  asked_.clear();
  on_behalf_of(*oldest, [&] { oldest->add_awaited(asked_); });
  const auto place = std::find(under_way_.begin(), under_way_.end(), oldest) - under_way_.begin();
  const std::uint64_t number = submitted_ - under_way_.size() + static_cast<std::uint64_t>(place);
  options_.control->ask({.number = number, .what = ours.call, .hash = ours.hash}, asked_);
}

void HostCommunicator::check_peers() {
  if (!options_.control) return;
  if (const auto error = options_.control->ended_peer()) throw Error(*error);
}

/// Only time during which this rank polled counts: one that was busy elsewhere, or stopped, has not waited for anybody.
void HostCommunicator::check_deadline(Clock::time_point now) {
  const bool was_away = is_long(now - last_check_);
  last_check_ = now;
  constexpr std::chrono::milliseconds between_looks{20};
  const bool looks = now - last_look_at_peers_ > between_looks;
  if (looks) {
    last_look_at_peers_ = now;
    check_peers();
  }
  for_all_under_way([&](HostOperation& operation) {
    if (!operation.begun() || operation.state() != Operation::State::pending) return;
    if (was_away) operation.mark_advance();
    const std::chrono::duration<double> silent = operation.silence(now);
    if (silent < options_.deadline) return;
    char text[128];
    std::snprintf(text, sizeof text,
                  "nothing has moved for %.2f s: is the peer alive, and does it submit the same operations?",
                  silent.count());
    throw Error(ErrorCode::timeout, text, operation.context()).naming_also(awaited());
  });
  if (looks) ask(now - between_looks);
}

void HostCommunicator::poison(std::exception_ptr error) noexcept {
  poison_ = std::move(error);
  for_all_under_way([this](HostOperation& operation) {
    if (operation.state() == Operation::State::pending) operation.abandon(poison_);
  });
  raise(poison_);
}

/// Also sends what there is to tell: whoever catches the error may never poll again.
void HostCommunicator::fail(std::exception_ptr error) noexcept {
  poison(std::move(error));
  tell_now();
}

}  // namespace lockstep::backends
