// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <unordered_set>
#include <vector>

#include "service.hpp"

namespace lockstep::bindings {

/// PyTorch's process group over a group of lockstep, for dense tensors in memory of the host. Tensors that are not
/// contiguous are copied; all others are read and written where they are.
///
/// PyTorch renames its functions from time to time, and forwards each name to the other. The older names are
/// overridden, which every version has.
class Backend final : public c10d::Backend {
 public:
  Backend(std::unique_ptr<ProcessGroup> group, std::chrono::milliseconds timeout);
  ~Backend() override;

  const std::string getBackendName() const override { return "lockstep"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceCoalescedOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor>& tensors, const c10d::ReduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_coalesced(std::vector<std::vector<at::Tensor>>& outputs,
                                                     std::vector<at::Tensor>& inputs,
                                                     const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                                 std::vector<at::Tensor>& inputs,
                                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
                                        const c10d::GatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> scatter(std::vector<at::Tensor>& outputs, std::vector<std::vector<at::Tensor>>& inputs,
                                         const c10d::ScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor>& outputs,
                                                std::vector<std::vector<at::Tensor>>& inputs,
                                                const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                                 std::vector<at::Tensor>& inputs,
                                                                 const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<std::int64_t>& output_splits,
                                               std::vector<std::int64_t>& input_splits,
                                               const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall(std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
                                          const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int tag) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;
  /// Rank 0 waits for a message of each other rank until the time-out of `options`. If one is missing, all ranks get an
  /// error that names it, and the group has failed. All missing ranks are named in any case, because rank 0 waits for
  /// all of them at once.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void setSequenceNumberForGroup() override {}
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;

  bool supportsTensorAlloc(c10::DeviceIndex /*device*/) override { return true; }
  /// Allocates zeroed memory that the ranks of a node share where they can, in which operations take the least time.
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  /// How many tensors it has allocated.
  [[nodiscard]] std::int64_t allocations() const { return allocations_; }

#ifdef C10D_BACKEND_HAS_RECONFIGURE  // older versions have other arguments, or none of these functions
  bool supportsSplitting() const override { return true; }
  /// Makes a group of some ranks of this one. Collective over this group. @return null on ranks outside of `ranks`
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override;
  void setTimeout(std::chrono::milliseconds timeout) override;

  /// Makes a back end without a group, which `reconfigure` gives it. It serves a store, where the members of a group
  /// meet of which it is rank 0.
  /// @param host  the name or address by which other processes reach this one
  /// @param rank  is told to the program until there is a group, as `size` is
  Backend(const std::string& host, int rank, int size, std::chrono::milliseconds timeout, bool is_watched);
  bool supportsReconfigure() const override { return store_ != nullptr; }
  /// Names this back end for others: when it was made, and where its store is.
  c10d::ReconfigureHandle get_reconfigure_handle() const override;
  /// Makes a group of these members and, when all have come, ends the one before, of which some may be dead. Returns
  /// when this is done. The oldest members of a set have the lowest ranks, so that rank 0 has the state of the program.
  /// No other thread may call the back end meanwhile.
  /// @throws DistBackendError that names members that have not come in time. The operations of the group before fail
  ///         from then on, too, until another call succeeds
  c10::intrusive_ptr<c10d::Work> reconfigure(const c10d::ReconfigureOptions& options) override;
#endif

  void abort() override { abort_with("the process group was aborted"); }
  /// Makes the operations of all ranks fail with this reason.
  void abort_with(const std::string& why);
  /// Waits for what is under way, and closes the group. Collective.
  void shutdown() override;
  /// Does the same for this group and, before it, for the groups that were split from it and are still open.
  void shutdown_with_parts();

 private:
  /// What an operation submits, and what it does with the results.
  struct Call {
    c10d::OpType type;
    std::vector<at::Tensor> results;
    Service::Submit submit;
    std::function<void()> complete;
  };
  c10::intrusive_ptr<c10d::Work> start(Call call, bool is_async);
  c10::intrusive_ptr<c10d::Work> all_gather_of(c10d::OpType type, std::vector<at::Tensor> outputs,
                                               std::vector<at::Tensor> inputs, bool is_async);
  c10::intrusive_ptr<c10d::Work> reduce_scatter_of(c10d::OpType type, std::vector<at::Tensor> outputs,
                                                   std::vector<at::Tensor> inputs, const c10d::ReduceOp& op,
                                                   bool is_async);
  c10::intrusive_ptr<c10d::Work> all_reduce_of(c10d::OpType type, std::vector<at::Tensor> tensors,
                                               const c10d::ReduceOp& op, bool is_async);
  /// The group. @throws DistBackendError if there is none yet
  [[nodiscard]] const std::shared_ptr<ServedGroup>& served() const;
  bool close_group();
  void abandon(const std::string& why);

  std::shared_ptr<ServedGroup> served_;  // null before the first `reconfigure`
  c10::intrusive_ptr<Options> options_;
  std::uint64_t sequence_ = 0;
  std::optional<std::vector<Call>> coalesced_;  // what was called since startCoalescing
  std::atomic<std::int64_t> allocations_ = 0;
  bool closed_ = false;
  std::vector<c10::weak_intrusive_ptr<Backend>> parts_;  // groups that were split from this one
  // For reconfigure.
  c10::intrusive_ptr<c10d::Store> store_;  // null unless this back end can be reconfigured
  std::string handle_;
  std::vector<std::string> members_;       // the handles of the group, by rank
  std::unordered_set<std::int64_t> used_;  // the numbers of its groups
  bool is_watched_ = false;
};

}  // namespace lockstep::bindings
