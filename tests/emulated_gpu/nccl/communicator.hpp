// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "emulated_gpu/cuda/queue.hpp"
#include "emulated_gpu/device/random.hpp"
#include "emulated_gpu/nccl/algorithm.hpp"
#include "emulated_gpu/nccl/connection.hpp"
#include "emulated_gpu/nccl/fold.hpp"

namespace emulated_gpu {

/// What other ranks know about a rank.
struct Peer {
  sockaddr_in address{};
  std::string host;
  DeviceIdentity device;
  std::size_t tree_below = 0;  ///< bytes of an all-reduce below which it would use the tree; rank 0's is used
};

/// A rank of a communicator. Tasks on the GPU share it; it outlives ncclCommAbort.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(int rank, int ranks, bool blocking);

  /// Meets all other ranks. Waits. @param where  a different meeting place for each communicator of an id
  ncclResult_t join(const ncclUniqueId& id, const std::string& where);
  /// Does the same for some ranks of an existing communicator. @param which  the same on these ranks, and on no others
  ncclResult_t join_part(const Communicator& parent, int its_rank, int its_ranks, const std::string& which);
  /// Makes connections to these ranks unless they exist. Waits for each of them to do the same.
  bool connect(const std::vector<int>& peers);
  /// Meets all ranks of this communicator again. Waits.
  std::optional<std::vector<std::string>> meet_again(const std::string& what, const std::string& mine);

  /// Runs a job on this communicator's own thread, or at once if it is blocking. @return ncclInProgress or the job's
  /// result
  ncclResult_t run(std::function<ncclResult_t()> job);
  /// Returns whether a job is under way.
  [[nodiscard]] ncclResult_t state();
  /// Records an error and its message. @return code
  ncclResult_t fail(ncclResult_t code, const std::string& why);
  /// Does the same for a call that is refused; a blocking communicator cannot be used afterwards.
  /// @source NCCL 2.28.9, src/enqueue.cc, ncclEnqueueCheck
  ncclResult_t refuse_call(ncclResult_t code, const std::string& why);
  [[nodiscard]] std::string last_error();
  /// Records an asynchronous error.
  void report(ncclResult_t code);
  /// Ends every job and every task.
  void abort();
  /// Ends every job and every launched operation, and forgets failures.
  void revoke();
  /// Ends the launched operations; later ones run again.
  void stop_tasks();
  [[nodiscard]] bool is_stopped(std::uint64_t number) const { return is_aborted_ || number < stopped_below_; }
  void wait_for_jobs();
  /// Waits until all tasks are over and no graph is left that has an operation, or something has failed.
  /// @source NCCL 2.28.9, src/init.cc, commDestroySync: it polls until all graphs that refer to the communicator have
  /// died
  void wait_for_tasks();
  /// What each copy of an operation in a graph holds. A single rank only copies, outside of NCCL's kernels.
  [[nodiscard]] std::shared_ptr<void> hold() const { return ranks == 1 ? nullptr : held_; }
  /// Waits until the tasks that the GPU has begun are over, with a limit, because the GPU may be lost.
  void wait_for_stopped_tasks();

  /// These functions need the device's lock. Operations are numbered when they are launched, and complete in that
  /// order.
  std::uint64_t launch() {
    ++tasks_;
    return launched_++;
  }
  [[nodiscard]] std::uint64_t done() const { return done_; }
  void start_one() { ++started_; }
  void finish_one() {
    ++done_;
    --tasks_;
  }
  [[nodiscard]] SumOrder order_of_sum(std::size_t bytes) const;
  /// Returns whether NCCL_ALGO leaves an algorithm for `function`, such as "broadcast".
  [[nodiscard]] bool has_ring_for(const char* function) const;

  /// Returns whether the GPUs of all ranks reach each other's memory: they do on one host.
  [[nodiscard]] bool reaches_peers() const;
  [[nodiscard]] Connection& connection(int peer) { return *connections_[static_cast<std::size_t>(peer)]; }
  /// Notes that a peer has gone in the middle of an operation.
  void lose(int peer);

  int rank;
  int ranks;
  const bool blocking;
  DeviceIdentity device;
  std::vector<Peer> peers;
  std::atomic<bool> is_made = false;
  std::atomic<bool> is_finalized = false;
  std::atomic<bool> is_revoked = false;

 private:
  ncclResult_t check_devices();
  [[nodiscard]] std::function<bool()> stop();
  void work_off();

  ncclUniqueId id_{};
  std::string where_;
  std::uint64_t name_ = 0;
  int meetings_ = 0;
  std::vector<std::unique_ptr<Connection>> connections_;
  Random random_;
  bool notices_;
  std::shared_ptr<void> held_ = std::make_shared<char>();
  std::uint64_t launched_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t started_ = 0;
  std::uint64_t stopped_below_ = 0;
  std::uint64_t tasks_ = 0;  // tasks that are launched and not over
  std::string algorithms_;   // NCCL_ALGO when the communicator was made
  std::atomic<bool> is_aborted_ = false;
  std::atomic<bool> is_interrupted_ = false;
  const Communicator* parent_ = nullptr;  // set while it is made from this one
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::function<ncclResult_t()>> jobs_;
  bool is_working_ = false;
  std::atomic<ncclResult_t> result_ = ncclSuccess;  // the first error
  std::string last_error_;
};

}  // namespace emulated_gpu

/// The target of a handle. It stays when its communicator is gone, so that a later use is detected.
struct ncclComm {
  std::shared_ptr<emulated_gpu::Communicator> communicator;
};
