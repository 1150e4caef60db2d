#pragma once

#include <exception>
#include <memory>

#include "lockstep/base/queue.hpp"
#include "lockstep/comm/progress.hpp"

namespace lockstep {

/// A collective under way: a state machine that its back end advances.
class Operation {
 public:
  enum class State { pending, done, failed };

  virtual ~Operation() = default;
  /// Of `then`: makes `queue` wait for the result, if the operation runs on a queue of its own.
  /// @return false if the host has to wait instead
  virtual bool order_after(Queue queue) = 0;

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const std::exception_ptr& error() const { return error_; }

 protected:
  void restart() {
    state_ = State::pending;
    error_ = nullptr;
  }
  void complete() { state_ = State::done; }
  void fail(std::exception_ptr error) {
    state_ = State::failed;
    error_ = std::move(error);
  }

 private:
  State state_ = State::pending;
  std::exception_ptr error_;
};

/// A handle on a submitted collective. Move-only. It must be waited for: one that is destroyed before
/// leaves the operation (and the caller's buffers) in use and says so on standard error.
class [[nodiscard]] Work {
 public:
  Work(std::shared_ptr<Operation> operation, Progress& progress)
      : operation_(std::move(operation)), progress_(&progress) {}
  Work(Work&&) noexcept = default;
  Work& operator=(Work&&) noexcept = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work();

  /// Whether the result is there (or the operation has failed). Makes no progress.
  [[nodiscard]] bool done() const { return operation_->state() != Operation::State::pending; }
  /// Waits for the result, moving every operation of this rank meanwhile.
  /// @throws Error{timeout | transport | mismatch | device} as the operation failed
  void wait();
  /// Orders `queue` after the operation; the host does not wait, except where the operation runs on the host.
  /// @throws as wait()
  void then(Queue queue);

 private:
  std::shared_ptr<Operation> operation_;
  Progress* progress_;
};

}  // namespace lockstep
