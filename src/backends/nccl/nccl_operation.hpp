// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <exception>
#include <optional>
#include <string>

#include "backends/nccl/tree_order_all_reduce.hpp"
#include "comm/call_check.hpp"
#include "comm/signature.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/comm/collective.hpp"
#include "lockstep/comm/work.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::backends {

class NcclCommunicator;

/// One collective on the communicator's stream. Reused, with its events, so that a step of training creates none.
///
/// queued: an earlier one is still being launched. launching: NCCL has its first part, and may be making connections in
/// the background; all but an all-reduce in tree order are one part. running: the stream has all of it, and ends with
/// `finished_`.
///
/// Where the caller's queue is captured, the same calls put the operation into the graph: `ready_` draws the
/// communicator's stream into the capture, `finished_` leads out of it. Such events mark places in the graph, and the
/// host must not ask for them. It ends for the host when it is captured.
class NcclOperation : public Operation {
 public:
  enum class Stage { queued, launching, running };

  explicit NcclOperation(NcclCommunicator& owner) : owner_(&owner) { label_.reserve(128); }

  /// Takes note of what to do, and of what the caller's queue holds by now.
  /// @param tree_order_scratch  where an all-reduce adds in tree order, what it needs for that; else nullptr
  /// @param is_captured         whether the caller's queue is
  void submit(const Collective& collective, void* tree_order_scratch, bool is_captured);
  /// Hands the next part to NCCL, the first one after the caller's queue. @param token  an int32 of device memory, for
  /// barriers @pre NCCL has put the part before on the stream
  void launch_next_part(ncclComm_t communicator, Queue stream, void* token);
  [[nodiscard]] bool all_launched() const;
  /// To be called when NCCL has put the last part on the stream.
  void mark_launched(Queue stream);
  /// Completes if the stream is past it, or fails if it went into a graph. @return whether it has ended
  bool check_finished();
  /// The operation behind this one is handed to NCCL with it. @pre both are one part
  void extend_launch() { ++launch_size_; }
  /// How many operations are handed to NCCL together, from this one on.
  [[nodiscard]] std::size_t launch_size() const { return launch_size_; }
  void abandon(std::exception_ptr error) { fail(std::move(error)); }

  /// Whether nothing that it was ordered after is still to be done.
  [[nodiscard]] bool could_run() const { return collective_.queue.is_host() || is_captured_ || ready_.reached(); }
  [[nodiscard]] CollectiveKind kind() const { return collective_.kind; }
  [[nodiscard]] bool is_captured() const { return is_captured_; }
  [[nodiscard]] Stage stage() const { return stage_; }
  [[nodiscard]] const Signature& signature() const { return signature_; }
  /// Whether a check of this call is done, see CallCheck. @throws Error{mismatch}
  [[nodiscard]] bool is_compared(CallCheck& check) { return check.poll(collective_.kind, counts_); }
  [[nodiscard]] ErrorContext context() const;
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
  Signature signature_;
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
