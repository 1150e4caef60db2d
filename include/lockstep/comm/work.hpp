// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "lockstep/base/queue.hpp"
#include "lockstep/comm/progress.hpp"

namespace lockstep {

class Operation;

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
  void order_before(Queue queue);

 private:
  friend const Operation& operation_of(const Work& work);  // for back ends
  [[nodiscard]] bool has_ended() const;
  void throw_if_failed() const;
  bool order_after(Queue queue);

  std::shared_ptr<Operation> operation_;
  Progress* progress_;
};

class Preparation;

/// An operation whose arguments are checked and whose plan is chosen once, and which is then started any number of
/// times, on the data that the buffers hold at that time. Preparing is local. Starting counts as submitting: all ranks
/// start in the same order, in which prepared and plain operations may mix, and one rank may prepare an operation that
/// another rank submits plainly. Move-only. Its communicator and its buffers must outlive the last start.
class [[nodiscard]] Prepared {
 public:
  /// For back ends. Communicator::prepare() returns it.
  explicit Prepared(std::unique_ptr<Preparation> preparation);
  Prepared(Prepared&&) noexcept;
  Prepared& operator=(Prepared&&) noexcept;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared();

  /// Submits the operation again. Only one start at a time may be under way.
  /// @throws Error{invalid_argument} unless the previous start has ended; as Communicator for a queue that its back end
  ///         does not take, and on a closed or poisoned communicator
  /// @cost   the cost of the operation without checking arguments, choosing a plan and making a signature, which are a
  ///         good part of it at 4 bytes (docs/performance.md)
  void start(Queue queue = Queue::host());
  /// Does the same as Work::test for the last start. Before the first start, test() returns true and wait() returns at
  /// once.
  [[nodiscard]] bool test() { return started_ == nullptr || started_->test(); }
  /// Waits until the last start has ended. @throws as Work::wait
  void wait() {
    if (started_ != nullptr) started_->wait();
  }
  /// Waits for at most `at_most`. @return whether the last start has ended @throws as Work::wait
  [[nodiscard]] bool wait(std::chrono::duration<double> at_most) {
    return started_ == nullptr || started_->wait(at_most);
  }
  /// Orders the queue's later work after the last start, as Work::order_before does.
  void order_before(Queue queue) {
    if (started_ != nullptr) started_->order_before(queue);
  }

 private:
  friend std::unique_ptr<Preparation> preparation_of(Prepared prepared);  // for back ends
  std::unique_ptr<Preparation> preparation_;
  Work* started_ = nullptr;  // Work of the last start, which belongs to the preparation
};

}  // namespace lockstep
