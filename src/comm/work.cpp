// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/work.hpp"

#include <algorithm>

#include "comm/back_end.hpp"
#include "comm/operation.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep {
namespace {

/// Upper limit of a wait, which a clock can still add to its current time.
constexpr std::chrono::duration<double> longest_wait = std::chrono::hours(24 * 365);

/// @throws Error{invalid_argument} in a child of the process that started the operation
void require_own_process(const Operation& operation) {
  if (!operation.origin().is_here()) operation.origin().require_here("the Work of " + operation.description(), {});
}

}  // namespace

const Operation& operation_of(const Work& work) { return *work.operation_; }

bool Work::has_ended() const { return operation_->state() != Operation::State::pending; }

/// Gives notice if the operation is still pending. It gives none while an exception propagates, or while the
/// program has yet to receive an error, because the exception or the error then explains the pending operation.
Work::~Work() {
  if (!operation_ || has_ended() || std::uncaught_exceptions() > 0 || !operation_->origin().is_here()) return;
  const Progress::Exclusive exclusive(*progress_);
  if (!progress_->unreported()) {
    progress_->say("the Work of " + operation_->description() +
                   " was destroyed before it was waited for; its buffers stay in use: call wait() first");
  }
}

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    const Work dropped(std::move(*this));  // its destructor gives notice if it is still pending
    operation_ = std::move(other.operation_);
    progress_ = other.progress_;
  }
  return *this;
}

bool Work::test() {
  if (!has_ended()) {
    require_own_process(*operation_);
    progress_->poll();
  }
  return has_ended();
}

void Work::wait() {
  if (!has_ended()) {
    require_own_process(*operation_);
    progress_->wait(*operation_);
  }
  throw_if_failed();
}

bool Work::wait(std::chrono::duration<double> at_most) {
  if (!has_ended()) require_own_process(*operation_);
  const auto bound = std::chrono::duration_cast<Clock::duration>(std::min(at_most, longest_wait));
  if (!has_ended() && !progress_->wait_until([this] { return has_ended(); }, progress_->now() + bound)) return false;
  throw_if_failed();
  return true;
}

void Work::throw_if_failed() const {
  if (operation_->state() != Operation::State::failed) return;
  {
    const Progress::Exclusive exclusive(*progress_);
    progress_->report(operation_->error());
  }
  std::rethrow_exception(operation_->error());
}

bool Work::order_after(Queue queue) {
  const Progress::Exclusive exclusive(*progress_);
  return operation_->order_after(queue);
}

void Work::order_before(Queue queue) {
  if (queue.is_host() || !order_after(queue)) wait();
}

Prepared::Prepared(std::unique_ptr<Preparation> preparation) : preparation_(std::move(preparation)) {}
Prepared::Prepared(Prepared&&) noexcept = default;
Prepared& Prepared::operator=(Prepared&&) noexcept = default;
Prepared::~Prepared() = default;

std::unique_ptr<Preparation> preparation_of(Prepared prepared) { return std::move(prepared.preparation_); }

void Prepared::start(Queue queue) {
  if (started_ != nullptr && state_of(*started_) == Operation::State::pending) {
    throw Error(ErrorCode::invalid_argument,
                "a prepared operation was started while it was still under way: wait for it first, or prepare another");
  }
  started_ = nullptr;
  started_ = &preparation_->start(queue);
}

}  // namespace lockstep
