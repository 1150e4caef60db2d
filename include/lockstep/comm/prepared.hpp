// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "lockstep/base/queue.hpp"
#include "lockstep/comm/work.hpp"

namespace lockstep {

/// What a back end keeps of an operation that is submitted again and again.
class Preparation {
 public:
  Preparation() = default;
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;
  virtual ~Preparation() = default;
  /// Submits it. @pre what was started before has ended. @return what it is waited for by, until the next start
  /// @throws as Communicator
  virtual Work& start(Queue queue) = 0;
};

/// An operation whose arguments are checked, and whose plan is chosen, once, and which is then started as often as it
/// is wanted: on the data that the buffers hold at that time. Preparing is local. Starting is submitting: all ranks
/// start in the same order, in which prepared and plain operations may mix, and a rank may have prepared what another
/// one submits plainly. Move-only. Its communicator and its buffers outlive the last start.
class [[nodiscard]] Prepared {
 public:
  /// For a back end: what prepare() of a communicator returns.
  explicit Prepared(std::unique_ptr<Preparation> preparation) : preparation_(std::move(preparation)) {}

  /// Submits the operation once more; one start at a time is under way.
  /// @throws Error{invalid_argument} unless the one before has ended; as Communicator for a queue that its back end
  ///         does not take, and on a closed or poisoned one
  /// @cost   that of the operation without checking arguments, choosing a plan and making a signature: a good part of
  ///         it at 4 bytes (docs/performance.md)
  void start(Queue queue = Queue::host());
  /// As Work. Before the first start there is nothing under way: test() is true and wait() returns.
  [[nodiscard]] bool test() { return started_ == nullptr || started_->test(); }
  /// Until the last start has ended. @throws as Work::wait
  void wait() {
    if (started_ != nullptr) started_->wait();
  }
  /// No longer than `at_most`. @return whether it has ended @throws as Work::wait
  [[nodiscard]] bool wait(std::chrono::duration<double> at_most) {
    return started_ == nullptr || started_->wait(at_most);
  }
  /// Orders the queue's later work after the last start, as Work::then.
  void then(Queue queue) {
    if (started_ != nullptr) started_->then(queue);
  }

  /// For a back end that is made of others.
  friend std::unique_ptr<Preparation> preparation_of(Prepared prepared) { return std::move(prepared.preparation_); }

 private:
  std::unique_ptr<Preparation> preparation_;
  Work* started_ = nullptr;  // the preparation's
};

}  // namespace lockstep
