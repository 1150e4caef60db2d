// SPDX-License-Identifier: Apache-2.0
// This file implements how a rank detects that it waits in vain, and how the other ranks learn of its failures.
#include <algorithm>

#include "base/wrapped.hpp"
#include "comm/host_communicator.hpp"

namespace lockstep {
namespace {

bool is_consequence(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& thrown) {
    return thrown.is_consequence();
  } catch (...) {
    return false;
  }
}

}  // namespace

void HostCommunicator::abort(std::string_view why) noexcept {
  is_aborted_.store(true, std::memory_order_relaxed);
  if (!options_.control) return;
  options_.control->raise(ErrorCode::transport, why, {});
  if (!progress_->is_known_to_be_of_this_thread()) return options_.control->tell_from_another_thread();
  const Progress::Exclusive exclusive(*progress_);
  options_.control->tell_now();
}

void HostCommunicator::raise(const std::exception_ptr& error) noexcept {
  if (options_.control) options_.control->raise(error);
}

void HostCommunicator::check_thread(std::string_view operation) const {
  check_process(operation);
  if (progress_->is_of_this_thread()) return;
  throw Error(ErrorCode::invalid_argument, std::string(on_another_thread),
              {.operation = std::string(operation), .rank = rank().value, .host = options_.hostname});
}

/// Checks, before anything is sent, whether this rank can go on, as far as it knows. It always looks at the node's
/// shared memory, but receives messages only at intervals.
void HostCommunicator::check_usable(std::string_view operation) {
  if (closed_) {
    throw Error(ErrorCode::transport, "the communicator is closed",
                {.operation = std::string(operation), .rank = rank().value, .host = options_.hostname});
  }
  constexpr std::chrono::milliseconds between_messages{5};
  if (options_.control && !poison_) {
    if (options_.control->heard() || (options_.control->has_link() && progress_->now() - last_poll_ > between_messages))
      on_tick(progress_->now());
  }
  if (!poison_) return;
  progress_->report(poison_);
  try {
    std::rethrow_exception(poison_);
  } catch (const Error& error) {  // may have been received while nothing was pending
    throw error.of_operation({.operation = std::string(operation)});
  }
}

bool HostCommunicator::on_tick(Clock::time_point now) noexcept {
  if (closed_) return false;
  try {
    watch(now);
    return false;
  } catch (...) {
    if (!poison_) fail(current_exception_of(rank().value, options_.hostname));
  }
  return true;
}

/// Finds out whether this rank waits in vain.
/// @throws Error with the identity of the operation that it is about, which is the oldest one unless more is known
void HostCommunicator::watch(Clock::time_point now) {
  try {
    poll_control(now);
    if (!idle()) check_deadline(now);
  } catch (const Error& error) {
    const HostOperation* const first = first_under_way();
    if (first == nullptr || !error.context().operation.empty()) throw;
    throw error.of_operation(first->identity());
  }
}

/// Exchanges control messages with the other ranks. @throws Error if one of them ends this communicator
void HostCommunicator::poll_control(Clock::time_point now) {
  if (!options_.control) return;
  last_poll_ = now;
  options_.control->poll_messages();
  if (poison_) return;
  std::optional<Error> alarm = options_.control->heard();
  if (!alarm && options_.control->has_somebody_left()) {
    alarm = first_difference(submitted_);
    if (!alarm) alarm = options_.control->early_close(submitted_);
  }
  if (!alarm) return answer_others();
  // The rank that gives up first may have waited for another rank than the one at fault, so each rank also names the
  // ranks that it waited for itself.
  throw alarm->naming_also(awaited());
}

/// Returns the oldest collective that has not ended; null if there is none or it has not begun.
HostOperation* HostCommunicator::oldest_pending() const {
  const auto is_pending = [](const HostOperation* o) { return o->state() == Operation::State::pending; };
  const auto oldest = std::find_if(under_way_.begin(), under_way_.end(), is_pending);
  return oldest == under_way_.end() || !(*oldest)->begun() ? nullptr : *oldest;
}

/// Returns the ranks that the oldest collective and the messages wait for. What younger collectives wait for may only
/// be a consequence.
std::vector<int> HostCommunicator::awaited() const {
  std::vector<int> ranks;
  if (const HostOperation* const oldest = oldest_pending()) oldest->add_awaited(ranks);
  for (const HostOperation* const message : messages_under_way_)
    if (message->state() == Operation::State::pending) message->add_awaited(ranks);
  return ranks;
}

/// Compares the calls that other ranks have asked about with those of this rank, and tells ranks that inquire which
/// ranks this one waits for. @throws Error{mismatch}
void HostCommunicator::answer_others() {
  std::erase_if(options_.control->questions(), [this](const auto& question) { return is_answered(question); });
  if (!options_.control->is_inquired()) return;
  ControlChannel::Standing standing{.awaited = awaited()};
  standing.is_busy = standing.awaited.empty() && (!idle() || progress_->is_busy_besides(*this));
  options_.control->answer(standing);
}

/// Returns whether another rank's question is settled. @throws Error{mismatch} if that rank calls something else
bool HostCommunicator::is_answered(const ControlChannel::Question& question) const {
  if (const auto difference = difference_from(question.rank, question.call.number)) {
    const auto ours = own_call(std::min(question.call.number, submitted_ - 1));  // it may not have called that one yet
    throw ours ? difference->of_operation({.operation = std::string(name(kind_of(*ours)))}) : Error(*difference);
  }
  return question.call.number < submitted_;
}

std::optional<CallSignature> HostCommunicator::own_call(std::uint64_t number) const {
  if (number >= submitted_ || submitted_ - number > remembered) return std::nullopt;
  return calls_[number % remembered];
}

/// Returns the error if another rank is known to have made a different call. Since the signatures are chained, the last
/// operation that both have called covers all operations before it; the error names the first that differs.
/// @param noticed_in  index of the operation that the error is reported for
std::optional<Error> HostCommunicator::difference_from(int rank, std::uint64_t noticed_in) const {
  std::optional<std::pair<CallSignature, CallSignature>> first;  // (theirs, ours)
  std::uint64_t number = std::min(options_.control->calls_of(rank), submitted_);
  bool is_first = true;
  for (; number > 0; --number) {
    const auto theirs = options_.control->call_of(rank, number - 1);
    const auto ours = own_call(number - 1);
    is_first = theirs && ours;
    if (!is_first || theirs->hash == ours->hash) break;
    first = {{theirs->what, theirs->hash}, *ours};
  }
  if (!first) return std::nullopt;
  if (number == noticed_in && is_first) return disagreement(rank, first->first, first->second);
  return earlier_disagreement(rank, first->first, first->second, number, is_first);
}

/// Returns the error if any rank is known to have made a different call.
std::optional<Error> HostCommunicator::first_difference(std::uint64_t noticed_in) const {
  for (int other = 0; other < size(); ++other) {
    if (other == rank().value) continue;
    if (auto difference = difference_from(other, noticed_in)) return difference;
  }
  return std::nullopt;
}

/// Returns the error with the identity of the operation. A mismatch becomes the error that names the first operation
/// that differs, if that is known.
Error HostCommunicator::explained(const Error& error, const HostOperation& operation) const {
  const std::vector<int>& peers = error.context().peers;
  const bool may_be_earlier =
      error.code() == ErrorCode::mismatch && peers.size() == 1 && options_.control && !is_message(operation.kind());
  if (may_be_earlier) {
    if (const auto difference = difference_from(peers.front(), operation.number()))
      return difference->of_operation(operation.identity());
  }
  return error.of_operation(operation.identity());
}

/// Asks the ranks that the oldest operation waits for whether they make the same call.
/// @param since  asks only if the oldest operation has not advanced since this time
void HostCommunicator::ask(Clock::time_point since) {
  HostOperation* const oldest = oldest_pending();
  if (!options_.control || oldest == nullptr || !oldest->is_silent_since(since)) return;
  if (oldest->has_asked()) return;
  if (const auto difference = first_difference(oldest->number())) throw difference->of_operation(oldest->identity());
  asked_.clear();
  on_behalf_of(*oldest, [&] { oldest->add_awaited(asked_); });
  const CallSignature& ours = oldest->signature();
  options_.control->ask({.number = oldest->number(), .what = ours.call, .hash = ours.hash}, asked_);
}

void HostCommunicator::check_peers() {
  if (!options_.control) return;
  if (const auto error = options_.control->ended_peer()) throw Error(*error);
}

/// Checks the deadline. Only time during which this rank polled counts, because a rank that was busy elsewhere or
/// stopped has not waited for its peers.
void HostCommunicator::check_deadline(Clock::time_point now) {
  const bool was_away = is_long(now - last_check_);
  last_check_ = now;
  constexpr std::chrono::milliseconds between_checks{20};
  const bool is_due = now - last_peer_check_ > between_checks;
  if (is_due) {
    last_peer_check_ = now;
    try {
      check_peers();
    } catch (const Error&) {
      poll_control(now);  // a rank that leaves has raised an alarm before, which holds the cause
      throw;
    }
  }
  HostOperation* longest = nullptr;
  Clock::duration silence{};
  for_all_under_way([&](HostOperation& operation) {
    if (!operation.begun() || operation.state() != Operation::State::pending) return;
    if (was_away) operation.mark_advance();
    const Clock::duration silent = operation.silence(now);
    if (longest == nullptr || silent > silence) longest = &operation;
    silence = std::max(silence, silent);
  });
  if (longest != nullptr) check_silence(*longest, silence, now);
  if (is_due) ask(now - between_checks);
}

/// Throws if an operation has not advanced for the deadline. Shortly before the deadline it starts to look for the rank
/// at fault, which may delay the error a little.
/// @throws Error{timeout} that names the rank at fault, or all ranks that this one waits for
void HostCommunicator::check_silence(const HostOperation& operation, Clock::duration silent, Clock::time_point now) {
  const std::chrono::duration<double> deadline = options_.deadline;
  const std::chrono::duration<double> patience = wait_for_graph_.patience();
  if (silent < deadline - 4 * patience) return wait_for_graph_.forget();
  WaitForGraph::Verdict verdict;
  if (options_.control) {
    // Younger operations may be waiting only because of the oldest one.
    const HostOperation* const oldest = is_message(operation.kind()) ? nullptr : oldest_pending();
    verdict = wait_for_graph_.follow(*options_.control, (oldest == nullptr ? operation : *oldest).awaited(), now);
  }
  if (silent < deadline || (verdict.is_open && silent < deadline + 4 * patience)) return;
  // A rank that waits on another communicator finds out first which rank is at fault there.
  if (verdict.is_busy_alone() && silent < 2 * deadline) return;
  const std::string text = format_text("nothing has moved for %.2f s: ", std::chrono::duration<double>(silent).count());
  ErrorContext context = operation.context();
  if (verdict.culprits().empty()) {
    throw Error(ErrorCode::timeout, text + "is the peer alive, and does it submit the same operations?", context)
        .naming_also(awaited());
  }
  context.peers = verdict.culprits();
  throw Error(ErrorCode::timeout, text + verdict.text(*options_.control), context);
}

void HostCommunicator::poison(std::exception_ptr error) noexcept {
  poison_ = std::move(error);
  for_all_under_way([this](HostOperation& operation) {
    if (operation.state() == Operation::State::pending) operation.abandon(poison_);
  });
  raise(poison_);
}

/// Fails this communicator and sends the alarm, because a program that catches the error may never poll again. If this
/// error is only a consequence of an alarm from another rank and another communicator of this rank knows the cause, the
/// program gets the cause.
void HostCommunicator::fail(std::exception_ptr error) noexcept {
  if (!is_consequence(error)) progress_->note_failure(error);
  if (is_consequence(error) && progress_->unreported()) error = progress_->unreported();
  poison(std::move(error));
  if (options_.control) options_.control->tell_now();
}

}  // namespace lockstep
