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

/// What other ranks know of one.
struct Peer {
  sockaddr_in address{};
  std::string host;
  DeviceIdentity device;
  std::size_t tree_below = 0;  ///< bytes of an all-reduce for which it would take the tree; rank 0's counts
};

/// A rank's place in a communicator. Tasks on the GPU share it; it outlives ncclCommAbort.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(int rank, int ranks, bool blocking);

  /// The meeting with all other ranks. Waits. @param where  another meeting place for each communicator of an id
  ncclResult_t join(const ncclUniqueId& id, const std::string& where);
  /// The same for some ranks of a communicator that is there. @param which  the same on these, and on no others
  ncclResult_t join_part(const Communicator& parent, int its_rank, int its_ranks, const std::string& which);
  /// Connections to these ranks, as far as there are none. Waits for each of them to want that too.
  bool connect(const std::vector<int>& peers);
  /// Meets all ranks of this communicator again. Waits.
  std::optional<std::vector<std::string>> meet_again(const std::string& what, const std::string& mine);

  /// Runs on this communicator's own thread, or at once where it blocks. @return ncclInProgress or what `job` returned
  ncclResult_t run(std::function<ncclResult_t()> job);
  /// Whether a job is under way.
  [[nodiscard]] ncclResult_t state();
  /// Notes last words. @return code
  ncclResult_t fail(ncclResult_t code, const std::string& why);
  /// The same for a call that is refused, after which a communicator that does not block is good for nothing.
  /// @source NCCL 2.28.9, src/enqueue.cc, ncclEnqueueCheck
  ncclResult_t refuse_call(ncclResult_t code, const std::string& why);
  [[nodiscard]] std::string last_error();
  /// An asynchronous error.
  void report(ncclResult_t code);
  /// Ends every job and every task.
  void abort();
  /// Ends every job, and every operation that has been launched, and forgets what has failed.
  void revoke();
  /// Ends the operations that have been launched; later ones are run again.
  void stop_tasks();
  [[nodiscard]] bool is_stopped(std::uint64_t number) const { return is_aborted_ || number < stopped_below_; }
  void wait_for_jobs();
  /// Until all are over, or something has gone wrong.
  void wait_for_tasks();
  /// Until those are over that the GPU has begun; but not for ever, as the GPU may be lost.
  void wait_for_stopped_tasks();

  /// Under the device's lock: operations are numbered as they are launched, and done in that order.
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
  /// Whether NCCL_ALGO leaves `function`, "broadcast", an algorithm that it has.
  [[nodiscard]] bool has_ring_for(const char* function) const;

  [[nodiscard]] Connection& connection(int peer) { return *connections_[static_cast<std::size_t>(peer)]; }
  /// A peer has gone in the middle of an operation.
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
  std::uint64_t launched_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t started_ = 0;
  std::uint64_t stopped_below_ = 0;
  std::uint64_t tasks_ = 0;  // that are launched and not over
  std::string algorithms_;   // NCCL_ALGO as it was when the communicator was made
  std::atomic<bool> is_aborted_ = false;
  std::atomic<bool> is_interrupted_ = false;
  const Communicator* parent_ = nullptr;  // while it is made of this one
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::function<ncclResult_t()>> jobs_;
  bool is_working_ = false;
  std::atomic<ncclResult_t> result_ = ncclSuccess;  // the first error
  std::string last_error_;
};

}  // namespace emulated_gpu

/// What a handle points to. It stays when its communicator is gone, so that using it then can be told.
struct ncclComm {
  std::shared_ptr<emulated_gpu::Communicator> communicator;
};
