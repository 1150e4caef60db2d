// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <utility>

#include "lockstep/base/error.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::ddp {

/// Operations that a stream waits for and whose end the host has not seen.
class StreamOrderedWork {
 public:
  StreamOrderedWork() = default;
  StreamOrderedWork(const StreamOrderedWork&) = delete;
  StreamOrderedWork& operator=(const StreamOrderedWork&) = delete;
  /// Drops the operations that have ended. The program has waited for the stream, but the host need not have polled.
  ~StreamOrderedWork() {
    try {
      while (!pending_.empty() && pending_.front().wait(std::chrono::seconds(0))) pending_.pop_front();
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the operation has failed, and the communicator says so
    }
  }

  /// Adds an operation that is pending.
  void add(Work work) { pending_.push_back(std::move(work)); }
  /// Drops the operations that have ended. @throws the Error of one that has failed
  void drop_ended() {
    while (!pending_.empty() && pending_.front().test()) wait_for_first();
  }
  /// Waits for all operations. @throws the Error of the first one that has failed
  void wait() {
    while (!pending_.empty()) wait_for_first();
  }
  /// Waits for all operations, and ignores their failures, which the communicator keeps throwing.
  void settle() noexcept {
    while (!pending_.empty()) {
      try {
        wait_for_first();
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch): nobody needs its result any more
      }
    }
  }

 private:
  void wait_for_first() {
    Work first = std::move(pending_.front());
    pending_.pop_front();
    first.wait();
  }

  std::deque<Work> pending_;
};

}  // namespace lockstep::ddp
