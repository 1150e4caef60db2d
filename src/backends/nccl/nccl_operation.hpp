// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <exception>
#include <optional>
#include <string>

#include "backends/nccl/tree_order_all_reduce.hpp"
#include "comm/call_signature.hpp"
#include "comm/operation.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/comm/collective.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::backends {

class NcclCommunicator;

/// One operation on the communicator's stream. Objects are reused, with their events, so that a training step creates
/// none.
///
/// Its stages: queued, an earlier operation is still being launched; launching, NCCL has its first part, and may be
/// making connections in the background (only an all-reduce in tree order has more than one part); running, the stream
/// has all of it, and ends with `finished_`.
///
/// If the caller's queue is captured, the same calls put the operation into the graph: `ready_` joins the
/// communicator's stream to the capture, and `finished_` leads out of it. Such events mark places in the graph, and the
/// host must not query them. For the host, the operation ends when it is captured.
class NcclOperation : public Operation {
 public:
  enum class Stage { queued, launching, running };

  explicit NcclOperation(NcclCommunicator& owner) : owner_(&owner) { label_.reserve(128); }

  /// Records what to do, and marks the end of what the caller's queue holds now.
  /// @param tree_order_scratch  scratch memory for an all-reduce in tree order; nullptr for every other operation
  /// @param is_captured         whether the caller's queue is captured
  void submit(const Collective& collective, void* tree_order_scratch, bool is_captured);
  /// Hands the next part to NCCL; the first one is ordered after the caller's queue.
  /// @param token  an int32 in device memory, for barriers
  /// @pre NCCL has put the previous part on the stream
  void launch_next_part(ncclComm_t communicator, Queue stream, void* token);
  [[nodiscard]] bool all_launched() const;
  /// Records that NCCL has put the last part on the stream.
  void mark_launched(Queue stream);
  /// Completes if the stream has passed it, or fails if it was captured into a graph. @return whether it has ended
  bool check_finished();
  /// Hands one more of the following operations to NCCL together with this one. @pre each has one part
  void extend_launch() { ++launch_size_; }
  /// The number of operations that are handed to NCCL together, from this one on.
  [[nodiscard]] std::size_t launch_size() const { return launch_size_; }
  void abandon(std::exception_ptr error) { fail(std::move(error)); }

  /// Returns whether all the work that it was ordered after is done.
  [[nodiscard]] bool could_run() const { return collective_.queue.is_host() || is_captured_ || ready_.reached(); }
  [[nodiscard]] CollectiveKind kind() const { return collective_.kind; }
  [[nodiscard]] bool is_captured() const { return is_captured_; }
  [[nodiscard]] Stage stage() const { return stage_; }
  [[nodiscard]] const CallSignature& signature() const { return signature_; }
  /// Returns whether the comparison of this call is done, see CallCheck. @throws Error{mismatch}
  [[nodiscard]] bool is_compared(CallCheck& check) { return check.poll(collective_.kind, counts_); }
  [[nodiscard]] ErrorContext context() const;
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] Span span() const;

  bool order_after(Queue queue) override;

 private:
  void call_nccl(ncclComm_t communicator, cudaStream_t stream, void* token) const;
  void gather(ncclComm_t communicator, cudaStream_t stream) const;
  void scatter(ncclComm_t communicator, cudaStream_t stream) const;
  void all_to_all(ncclComm_t communicator, cudaStream_t stream) const;
  void message(ncclComm_t communicator, cudaStream_t stream) const;
  void all_gather_v(ncclComm_t communicator, cudaStream_t stream) const;
  void reduce_scatter_v(ncclComm_t communicator, cudaStream_t stream) const;
  void all_to_all_v(ncclComm_t communicator, cudaStream_t stream) const;

  NcclCommunicator* owner_;
  Collective collective_;
  KeptCounts counts_;
  CallSignature signature_;
  std::string label_;
  std::optional<TreeOrderAllReduce> tree_order_;
  Stage stage_ = Stage::queued;
  std::size_t launch_size_ = 1;
  bool is_captured_ = false;
  Event ready_;
  Event finished_;
  Clock::time_point submitted_;
};

}  // namespace lockstep::backends
