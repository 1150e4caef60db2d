// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/origin_process.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/base/queue.hpp"
#include "lockstep/comm/collective.hpp"
#include "lockstep/comm/work.hpp"
#include "platform/node_memory/flight_recorder.hpp"

namespace lockstep {

/// A source of operations that advance when it is polled.
class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  /// Advances every operation as far as possible without waiting; failures are kept in the operations.
  /// @return whether anything advanced
  virtual bool progress() noexcept = 0;
  /// Called about every millisecond while operations are waited for, also if this source is idle. It checks for events
  /// that no operation waits for: deadlines, peers that have gone, messages of other ranks. @return whether anything
  /// advanced
  virtual bool on_tick(Clock::time_point /*now*/) noexcept { return false; }
  /// Whether no operation is under way. A progress thread sleeps while all sources are idle.
  [[nodiscard]] virtual bool idle() const noexcept = 0;
  /// Sleeps for at most `at_most`, until a peer that it waits for has advanced; advances operations as `progress` does.
  /// @return false, without having slept, if no peer would wake it
  virtual bool sleep(std::chrono::nanoseconds /*at_most*/) noexcept { return false; }
};

/// A collective under way: a state machine that its back end advances.
class Operation {
 public:
  /// An operation is `pending` from its start to its end, and becomes pending again at each start of a prepared one.
  enum class State { pending, done, failed };

  virtual ~Operation() = default;
  /// Makes `queue` wait for the result, if the operation runs on its own queue. `Work::order_before` calls it.
  /// @return false if the host has to wait instead
  virtual bool order_after(Queue queue) = 0;
  /// Advances this operation, if that is possible without polling the rank's other operations; failures are kept in it.
  /// @pre state() is `pending`
  virtual void poll() noexcept {}
  /// Names the operation and its rank in messages.
  [[nodiscard]] virtual std::string description() const { return "an operation"; }

  /// The process that made this.
  [[nodiscard]] const OriginProcess& origin() const { return origin_; }
  /// The state. A thread that sees that the operation has ended sees its result as well.
  [[nodiscard]] State state() const { return state_.load(std::memory_order_acquire); }
  /// @pre state() was `failed`
  [[nodiscard]] const std::exception_ptr& error() const { return error_; }

 protected:
  /// Makes the operation pending again. @pre nobody waits for it
  void restart() {
    error_ = nullptr;
    state_.store(State::pending, std::memory_order_release);
  }
  /// Ends the operation successfully. A thread that sees this state sees the result as well.
  void complete() { state_.store(State::done, std::memory_order_release); }
  /// Ends the operation with an error, which wait() throws.
  void fail(std::exception_ptr error) {
    error_ = std::move(error);
    state_.store(State::failed, std::memory_order_release);
  }

 private:
  OriginProcess origin_;
  std::atomic<State> state_ = State::pending;  // one thread may poll it while another one ends it
  std::exception_ptr error_;
};

/// An operation that names its collective, in errors, for the observer and in the flight recorder.
class NamedOperation : public Operation {
 public:
  NamedOperation() { label_.reserve(128); }

  [[nodiscard]] CollectiveKind kind() const { return kind_; }
  /// Returns its kind, label and size, for error messages.
  [[nodiscard]] ErrorContext identity() const {
    return {.operation = std::string(name(kind_)), .label = label_, .bytes = bytes_.value};
  }
  [[nodiscard]] std::string description() const override {
    return std::string(name(kind_)) + (label_.empty() ? "" : " '" + label_ + "'") + " on rank " +
           std::to_string(rank_.value);
  }
  /// @param now  the time at which it ended
  [[nodiscard]] Span span(Clock::time_point now) const {
    return {.track = "communication",
            .name = label_.empty() ? name(kind_) : std::string_view(label_),
            .begin = submitted_,
            .end = now,
            .bytes = bytes_,
            .algorithm = algorithm()};
  }
  /// Records its end, if its beginning was recorded.
  void record_end(FlightRecorder* recorder) {
    if (recorder != nullptr && record_) recorder->end(*std::exchange(record_, std::nullopt));
  }
  /// Ends as failed; messages in flight stay in flight.
  void abandon(std::exception_ptr error) { fail(std::move(error)); }

 protected:
  void name_after(const Collective& collective) {
    kind_ = collective.kind;
    bytes_ = std::max(collective.in.bytes(), collective.out.bytes());
    label_ = collective.label;
  }
  /// Becomes pending again. @param now  time stamp for the observer @param recorder  null if it is not recorded
  void restart_at(Clock::time_point now, FlightRecorder* recorder) {
    restart();
    record_.reset();
    if (recorder != nullptr) record_ = recorder->begin(kind_, label_, bytes_);
    submitted_ = now;
  }
  void set_rank(Rank rank) { rank_ = rank; }
  [[nodiscard]] const std::string& label() const { return label_; }

 private:
  /// Returns the name of its algorithm, for the observer; the string lives as long as the program.
  [[nodiscard]] virtual std::string_view algorithm() const { return {}; }

  Rank rank_;
  CollectiveKind kind_ = CollectiveKind::barrier;
  Bytes bytes_;
  std::string label_;
  std::optional<std::uint64_t> record_;  // its number in the flight recorder
  Clock::time_point submitted_;
};

/// Returns the operation of a Work.
const Operation& operation_of(const Work& work);

/// Returns the state without advancing the operation, for a back end that wraps another one and has the same Progress.
/// A loop that waits for this state to change may never end.
inline Operation::State state_of(const Work& work) { return operation_of(work).state(); }

}  // namespace lockstep
