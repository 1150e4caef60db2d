// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/tree_order_all_reduce.hpp"

#include <algorithm>
#include <bit>

#include "backends/nccl/nccl_library.hpp"
#include "kernels/cuda/launch.hpp"
#include "platform/gpu/cuda.hpp"

namespace lockstep::backends {

namespace {

/// Without leaves, each rank is one.
LeafShares shares_of(const Collective& collective, int ranks) {
  const LeafShares& shares = collective.leaves.shares;
  return shares.total() > 0 ? shares : LeafShares(ranks);
}

}  // namespace

int TreeOrderAllReduce::operands_of(const Collective& collective, int ranks) {
  const LeafShares shares = shares_of(collective, ranks);
  int operands = 0;
  for (int rank = 0; rank < ranks; ++rank) operands += count_tree_nodes(shares.total(), shares.of(rank, ranks));
  return operands;
}

TreeOrderAllReduce::TreeOrderAllReduce(const Collective& collective, Rank me, int ranks, void* scratch)
    : in_(collective.in),
      stride_(collective.leaves.stride),
      out_(collective.out),
      op_(collective.op),
      me_(me.value),
      ranks_(ranks),
      scratch_(scratch) {
  const LeafShares shares = shares_of(collective, ranks);
  int operands = 0;
  int fewest = shares.total();
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<LeafNode> nodes = tree_nodes(shares.total(), shares.of(rank, ranks));
    for (const LeafNode& node : nodes) {
      const auto leaves = static_cast<unsigned>(node.leaves);
      operands_.level[operands++] = std::has_single_bit(leaves) ? static_cast<std::uint8_t>(std::countr_zero(leaves))
                                                                : kernels::cuda::Contributions::rest;
    }
    ends_.push_back(operands);
    fewest = std::min(fewest, static_cast<int>(nodes.size()));
  }
  operands_.operands = operands;
  operands_.own_operands = operands_of_rank(me_);
  operands_.first = ends_[static_cast<std::size_t>(me_)] - operands_.own_operands;
  operands_.own_stride = stride_.value;
  operands_.others = scratch;
  blocks_ = SlicedBlocks(in_.count, in_.dtype, ranks, operands - fewest, scratch_bytes);
}

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
  const int from_others = operands_.operands - operands_.own_operands;
  const Buffer scratch{scratch_, from_others * mine, in_.dtype, MemoryKind::device};
  MessageGroup group(communicator, stream);
  std::int64_t received = 0;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == me_) continue;
    for (int operand = 0; operand < operands_.own_operands; ++operand) group.send(input(block, peer, operand), peer);
    for (int left = operands_of_rank(peer); left > 0; --left, received += mine.value)
      group.receive(slice(scratch, {received}, mine), peer);
  }
  group.close();
}

void TreeOrderAllReduce::add_up(std::int64_t block, cudaStream_t stream) {
  const ConstBuffer own = input(block, me_, 0);
  operands_.own = own.data;
  operands_.count = own.count.value;
  LOCKSTEP_CUDA_CHECK(kernels::cuda::launch_canonical_fold(operands_, output(block, me_).data, own.dtype, op_, stream));
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

int TreeOrderAllReduce::operands_of_rank(int rank) const {
  const auto number = static_cast<std::size_t>(rank);
  return ends_[number] - (rank == 0 ? 0 : ends_[number - 1]);
}

/// Returns the slice of one of this rank's operands that a rank adds up.
ConstBuffer TreeOrderAllReduce::input(std::int64_t block, int rank, int operand) const {
  const auto [offset, count] = blocks_.slice(block, rank);
  ConstBuffer whole = in_;
  whole.data = static_cast<const std::byte*>(in_.data) + operand * stride_.value * size_of(in_.dtype);
  return slice(whole, offset, count);
}

Buffer TreeOrderAllReduce::output(std::int64_t block, int rank) const {
  const auto [offset, count] = blocks_.slice(block, rank);
  return slice(out_, offset, count);
}

}  // namespace lockstep::backends
