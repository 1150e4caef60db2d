// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "lockstep/base/queue.hpp"
#include "lockstep/comm/progress.hpp"

namespace lockstep {

/// A collective under way: a state machine that its back end advances.
class Operation {
 public:
  /// `pending` from its start to its end; so again where it is prepared and started once more.
  enum class State { pending, done, failed };

  virtual ~Operation() = default;
  /// Of `then`: makes `queue` wait for the result, if the operation runs on a queue of its own.
  /// @return false if the host has to wait instead
  virtual bool order_after(Queue queue) = 0;
  /// Moves this operation, if that can be done without a look at the others of its rank; failures are kept in it.
  /// @pre state() is `pending`
  virtual void poll() noexcept {}

  /// Whoever sees that it has ended, on whichever thread, sees its result as well.
  [[nodiscard]] State state() const { return state_.load(std::memory_order_acquire); }
  /// @pre state() was `failed`
  [[nodiscard]] const std::exception_ptr& error() const { return error_; }

 protected:
  /// Pending once more. @pre nobody waits for it
  void restart() {
    error_ = nullptr;
    state_.store(State::pending, std::memory_order_release);
  }
  /// Ends it; its result can be seen by whoever sees that.
  void complete() { state_.store(State::done, std::memory_order_release); }
  /// Ends it by an error, which wait() throws.
  void fail(std::exception_ptr error) {
    error_ = std::move(error);
    state_.store(State::failed, std::memory_order_release);
  }

 private:
  std::atomic<State> state_ = State::pending;  // may be polled by one thread while another one ends it
  std::exception_ptr error_;
};

/// A handle on a submitted collective. Move-only. It must be waited for: one that is destroyed, or overwritten, before
/// leaves the operation (and the caller's buffers) in use, of which the progress gives notice. It may outlive its
/// communicator: where that was destroyed without close(), the operation has failed. Nothing that is pending outlives
/// the progress.
class [[nodiscard]] Work {
 public:
  /// For a back end: a handle on an operation that `progress` moves, which outlives it.
  Work(std::shared_ptr<Operation> operation, Progress& progress)
      : operation_(std::move(operation)), progress_(&progress) {}
  Work(Work&&) noexcept = default;
  Work& operator=(Work&& other) noexcept;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work();

  /// Moves every operation of this rank as far as it goes without waiting, unless a progress thread does.
  /// @return whether the operation has ended; if it has failed, wait() throws
  [[nodiscard]] bool test();
  /// Waits for the result, moving every operation of this rank meanwhile.
  /// @throws Error{timeout | transport | mismatch | device} as the operation failed; Error{invalid_argument} for one
  ///         that went into a graph, because its queue was captured: nobody waits for that but a queue
  void wait();
  /// As wait(), for about so long and no longer. @return whether the operation has ended
  [[nodiscard]] bool wait(std::chrono::duration<double> at_most);
  /// Orders `queue` after the operation; the host does not wait, except where the operation runs on the host. Of an
  /// operation that went into a graph the queue is in it, too, from then on.
  /// @throws as wait()
  void then(Queue queue);

  /// Only looks, for a back end that is made of another one and is moved by the same progress: who loops until it
  /// changes may loop for ever.
  friend Operation::State state_of(const Work& work) { return work.operation_->state(); }

 private:
  [[nodiscard]] bool has_ended() const { return state_of(*this) != Operation::State::pending; }
  void throw_if_failed() const;
  bool order_after(Queue queue);

  std::shared_ptr<Operation> operation_;
  Progress* progress_;
};

}  // namespace lockstep
