// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/tree_order_all_reduce.hpp"

#include "backends/nccl/nccl_library.hpp"
#include "kernels/cuda/launch.hpp"
#include "platform/gpu/cuda.hpp"

namespace lockstep::backends {

TreeOrderAllReduce::TreeOrderAllReduce(const Collective& collective, Rank me, int ranks, void* scratch)
    : in_(collective.in),
      out_(collective.out),
      op_(collective.op),
      me_(me.value),
      ranks_(ranks),
      scratch_(scratch),
      blocks_(collective.in.count, collective.in.dtype, ranks, scratch_bytes) {}

void TreeOrderAllReduce::launch_next_part(ncclComm_t communicator, cudaStream_t stream) {
  const std::int64_t block = next_ / 2;
  if (next_ % 2 == 0) {
    send_contributions(block, communicator, stream);
  } else {
    add_up(block, stream);
    send_results(block, communicator, stream);
  }
  ++next_;
}

void TreeOrderAllReduce::send_contributions(std::int64_t block, ncclComm_t communicator, cudaStream_t stream) const {
  const Count mine = blocks_.slice(block, me_).count;
  const Buffer scratch{scratch_, (ranks_ - 1) * mine, in_.dtype, MemoryKind::device};
  MessageGroup group(communicator, stream);
  std::int64_t received = 0;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == me_) continue;
    group.send(input(block, peer), peer);
    group.receive(slice(scratch, {received}, mine), peer);
    received += mine.value;
  }
  group.close();
}

void TreeOrderAllReduce::add_up(std::int64_t block, cudaStream_t stream) const {
  const ConstBuffer own = input(block, me_);
  const kernels::cuda::Contributions in{
      .own = own.data, .others = scratch_, .rank = me_, .ranks = ranks_, .count = own.count.value};
  LOCKSTEP_CUDA_CHECK(kernels::cuda::launch_canonical_fold(in, output(block, me_).data, own.dtype, op_, stream));
}

void TreeOrderAllReduce::send_results(std::int64_t block, ncclComm_t communicator, cudaStream_t stream) const {
  MessageGroup group(communicator, stream);
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == me_) continue;
    group.send(output(block, me_), peer);
    group.receive(output(block, peer), peer);
  }
  group.close();
}

ConstBuffer TreeOrderAllReduce::input(std::int64_t block, int rank) const {
  const auto [offset, count] = blocks_.slice(block, rank);
  return slice(in_, offset, count);
}

Buffer TreeOrderAllReduce::output(std::int64_t block, int rank) const {
  const auto [offset, count] = blocks_.slice(block, rank);
  return slice(out_, offset, count);
}

}  // namespace lockstep::backends
