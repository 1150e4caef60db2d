// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "lockstep/base/queue.hpp"
#include "lockstep/comm/progress.hpp"

namespace lockstep {

/// A collective under way: a state machine that its back end advances.
class Operation {
 public:
  /// An operation is `pending` from its start to its end, and becomes pending again at each start of a prepared one.
  enum class State { pending, done, failed };

  virtual ~Operation() = default;
  /// Makes `queue` wait for the result, if the operation runs on its own queue. `Work::then` calls it.
  /// @return false if the host has to wait instead
  virtual bool order_after(Queue queue) = 0;
  /// Advances this operation, if that is possible without polling the rank's other operations; failures are kept in it.
  /// @pre state() is `pending`
  virtual void poll() noexcept {}
  /// Names the operation and its rank in messages.
  [[nodiscard]] virtual std::string description() const { return "an operation"; }

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
  std::atomic<State> state_ = State::pending;  // one thread may poll it while another one ends it
  std::exception_ptr error_;
};

/// A handle to a submitted collective. Move-only. It must be waited for: destroying or overwriting it earlier leaves
/// the operation (and the caller's buffers) in use, and the Progress gives a notice. It may outlive its communicator;
/// if that was destroyed without close(), the operation has failed. A pending Work must not outlive the Progress.
class [[nodiscard]] Work {
 public:
  /// For back ends: makes a handle to an operation that `progress` advances. `progress` must outlive it.
  Work(std::shared_ptr<Operation> operation, Progress& progress)
      : operation_(std::move(operation)), progress_(&progress) {}
  Work(Work&&) noexcept = default;
  Work& operator=(Work&& other) noexcept;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work();

  /// Advances every operation of this rank as far as possible without waiting, unless a progress thread does.
  /// @return whether the operation has ended; if it has failed, wait() throws
  [[nodiscard]] bool test();
  /// Waits for the result, and advances every operation of this rank meanwhile.
  /// @throws Error{timeout | transport | mismatch | device} if the operation failed; Error{invalid_argument} for an
  ///         operation that was captured into a CUDA graph with its queue, because only a queue can wait for it
  void wait();
  /// Waits as wait() does, for about `at_most` and no longer. @return whether the operation has ended
  [[nodiscard]] bool wait(std::chrono::duration<double> at_most);
  /// Orders later work of `queue` after the operation. The host waits only if the operation runs on the host. If the
  /// operation was captured into a graph, `queue` becomes part of the graph as well.
  /// @throws as wait()
  void then(Queue queue);

  /// Returns the state without advancing the operation, for a back end that wraps another one and has the same
  /// Progress. A loop that waits for this state to change may never end.
  friend Operation::State state_of(const Work& work) { return work.operation_->state(); }

 private:
  [[nodiscard]] bool has_ended() const { return state_of(*this) != Operation::State::pending; }
  void throw_if_failed() const;
  bool order_after(Queue queue);

  std::shared_ptr<Operation> operation_;
  Progress* progress_;
};

}  // namespace lockstep
