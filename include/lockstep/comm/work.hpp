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

}  // namespace lockstep
