// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "lockstep/base/queue.hpp"
#include "lockstep/comm/work.hpp"

namespace lockstep {

/// The state that a back end keeps of an operation that is started many times.
class Preparation {
 public:
  Preparation() = default;
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;
  virtual ~Preparation() = default;
  /// Submits the operation. @pre the previous start has ended. @return the Work of this start, valid until the next
  /// @throws as Communicator
  virtual Work& start(Queue queue) = 0;
};

/// An operation whose arguments are checked and whose plan is chosen once, and which is then started any number of
/// times, on the data that the buffers hold at that time. Preparing is local. Starting counts as submitting: all ranks
/// start in the same order, in which prepared and plain operations may mix, and one rank may prepare an operation that
/// another rank submits plainly. Move-only. Its communicator and its buffers must outlive the last start.
class [[nodiscard]] Prepared {
 public:
  /// For back ends. Communicator::prepare() returns it.
  explicit Prepared(std::unique_ptr<Preparation> preparation) : preparation_(std::move(preparation)) {}

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
  /// Orders the queue's later work after the last start, as Work::then does.
  void then(Queue queue) {
    if (started_ != nullptr) started_->then(queue);
  }

  /// Gives the Preparation to a back end that wraps another one.
  friend std::unique_ptr<Preparation> preparation_of(Prepared prepared) { return std::move(prepared.preparation_); }

 private:
  std::unique_ptr<Preparation> preparation_;
  Work* started_ = nullptr;  // Work of the last start, which belongs to the preparation
};

}  // namespace lockstep
