// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "lockstep/ddp/process_group.hpp"

namespace lockstep::bindings {

/// An operation for PyTorch. The service ends it.
class TorchWork : public c10d::Work {
 public:
  TorchWork(int rank, c10d::OpType type, std::vector<at::Tensor> results);
  /// Advances operations in place of the service's thread while it waits, which saves two changes of threads.
  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  void end(const std::exception_ptr& error);

 private:
  std::vector<at::Tensor> results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

/// A group with its operations under way, which belong to the service.
struct ServedGroup {
  struct Pending {
    std::function<std::vector<Work>(Communicator&)> submit;  ///< holds the memory of what is sent
    std::vector<Work> parts;
    std::function<void()> complete;  ///< copies results to where they are wanted; may be empty
    c10::intrusive_ptr<TorchWork> work;
  };
  std::unique_ptr<ProcessGroup> group;
  std::deque<Pending> pending;
  std::atomic<bool> has_failed = false;  ///< whether an operation has ended with an error, which the program has got
};

/// Submits the operations of all groups of the process, and advances them: PyTorch submits from several threads, and
/// goes on computing while operations are under way. A thread of the service does it, except while others wait for an
/// operation.
class Service {
 public:
  /// The service of the process. It is never destroyed, because PyTorch may end operations when the process ends.
  static Service& instance();

  using Submit = std::function<std::vector<Work>(Communicator&)>;
  /// Queues an operation. Operations of a group are submitted in the order of these calls.
  /// @param submit    is called by the service; `complete` follows when all that it has submitted has ended
  /// @param is_async  whether the caller goes on without waiting for it
  void submit(const std::shared_ptr<ServedGroup>& group, Submit submit, std::function<void()> complete,
              c10::intrusive_ptr<TorchWork> work, bool is_async);
  /// Advances operations until this one has ended, or the time is over.
  void help(TorchWork& work, std::chrono::milliseconds timeout);
  /// Waits until the operations of a group that were queued before have ended.
  void drain(const std::shared_ptr<ServedGroup>& group);
  /// Waits for at most 2 s until no thread holds an operation any more. A thread that released an object of Python's
  /// while the interpreter ends would end the process.
  void wait_until_idle();

 private:
  struct Task {
    std::shared_ptr<ServedGroup> group;
    Submit submit;
    std::function<void()> complete;
    c10::intrusive_ptr<TorchWork> work;
  };
  using Clock = std::chrono::steady_clock;
  Service();
  [[noreturn]] void run();
  /// Since when a thread has polled in vain.
  struct Waiting {
    Clock::time_point since = Clock::now();
  };
  void advance_or_rest(std::unique_lock<std::mutex> advancing, Waiting& waiting, const std::function<bool()>& is_over);
  struct Ended {
    c10::intrusive_ptr<TorchWork> work;
    std::exception_ptr failure;
  };
  bool advance_all(bool checks, std::vector<Ended>& ended);
  bool poll(ServedGroup& group);
  void start(Task task, std::vector<Ended>& ended);
  void advance(ServedGroup& group, std::vector<Ended>& ended);
  void note_end();

  std::mutex mutex_;                // guards the queue and the numbers
  std::condition_variable wake_;    // of the service's thread, while others advance operations
  std::condition_variable rested_;  // of threads that rest between two polls
  std::deque<Task> queue_;
  std::int64_t open_ = 0;                           // operations that have not ended
  int helpers_ = 0;                                 // threads that wait, and advance operations meanwhile
  std::mutex advancing_;                            // guards the groups' operations under way
  std::vector<std::shared_ptr<ServedGroup>> busy_;  // groups with operations under way
};

/// The error for PyTorch: a DistBackendError with lockstep's text.
std::exception_ptr torch_error(const std::exception& error);

}  // namespace lockstep::bindings
