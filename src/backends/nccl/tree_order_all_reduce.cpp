// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/tree_order_all_reduce.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "backends/nccl/nccl_library.hpp"
#include "kernels/cuda/launch.hpp"
#include "platform/gpu/cuda.hpp"

namespace lockstep::backends {
namespace {

using kernels::cuda::Contributions;

/// The level of the sum of a node's leaves.
std::uint8_t level_of(const LeafNode& node) {
  const auto leaves = static_cast<unsigned>(node.leaves);
  return std::has_single_bit(leaves) ? static_cast<std::uint8_t>(std::countr_zero(leaves)) : Contributions::rest;
}

/// Without leaves, each rank is one.
LeafShares shares_of(const Collective& collective, int ranks) {
  const LeafShares& shares = collective.leaves.shares;
  return shares.total() > 0 ? shares : LeafShares(ranks);
}

/// Returns the node of the tree that each node's leaves are; empty unless each is one, and nodes have equally many
/// ranks, more than one, in their order.
std::vector<LeafNode> subtrees_of_nodes(const LeafShares& shares, const ClusterShape& shape) {
  const int ranks = shape.ranks();
  const int nodes = shape.nodes();
  const int on_node = ranks / nodes;
  if (nodes == 1 || on_node == 1 || on_node * nodes != ranks) return {};
  for (int rank = 0; rank < ranks; ++rank)
    if (shape.node_of_rank[static_cast<std::size_t>(rank)] != rank / on_node) return {};
  std::vector<LeafNode> subtrees;
  for (int node = 0; node < nodes; ++node) {
    const std::int64_t first = shares.of(node * on_node, ranks).first;
    const std::int64_t end = shares.of((node + 1) * on_node - 1, ranks).end();
    const std::vector<LeafNode> its = tree_nodes(shares.total(), Share{first, end - first});
    if (its.size() != 1) return {};
    subtrees.push_back(its.front());
  }
  return subtrees;
}

/// Returns the stage of some consecutive ranks that begin with `first`.
TreeOrderStage stage_of(const LeafShares& shares, int all_ranks, int first, int ranks, int me) {
  std::vector<int> peers(static_cast<std::size_t>(ranks));
  std::iota(peers.begin(), peers.end(), first);
  std::vector<std::vector<LeafNode>> operands;
  for (const int rank : peers) operands.push_back(tree_nodes(shares.total(), shares.of(rank, all_ranks)));
  return {std::move(peers), me - first, operands};
}

}  // namespace

TreeOrderStage::TreeOrderStage(std::vector<int> peers, int me, const std::vector<std::vector<LeafNode>>& operands)
    : peers_(std::move(peers)), me_(me) {
  int count = 0;
  for (const std::vector<LeafNode>& nodes : operands) {
    counts_.push_back(static_cast<int>(nodes.size()));
    count += counts_.back();
  }
  const LeafNode& last = operands.back().back();
  if (count > Contributions::most || last.first + last.leaves > Contributions::most_leaves) {
    throw Error(ErrorCode::unsupported, "an all-reduce in tree order of " + std::to_string(count) + " sums of " +
                                            std::to_string(last.first + last.leaves) +
                                            " leaves, and a GPU adds at most " + std::to_string(Contributions::most) +
                                            " of " + std::to_string(Contributions::most_leaves) +
                                            ": use fewer leaves, best a multiple of the ranks");
  }
  fewest_ = *std::min_element(counts_.begin(), counts_.end());
  for (const std::vector<LeafNode>& nodes : operands)
    for (const LeafNode& node : nodes) operands_.level[operands_.operands++] = level_of(node);
  operands_.first = std::accumulate(counts_.begin(), counts_.begin() + me, 0);
  operands_.own_operands = counts_[static_cast<std::size_t>(me)];
}

void TreeOrderStage::exchange(const ConstBuffer& in, Count stride, void* scratch, ncclComm_t communicator,
                              cudaStream_t stream) const {
  const Count mine = own_part(in).count;
  Buffer free{scratch, (operands_.operands - operands_.own_operands) * mine, in.dtype, MemoryKind::device};
  MessageGroup group(communicator, stream);
  for (int peer = 0; peer < std::ssize(peers_); ++peer) {
    if (peer == me_) continue;
    const int rank = peers_[static_cast<std::size_t>(peer)];
    ConstBuffer operand = part(in, peer);
    for (int left = operands_.own_operands; left > 0; --left) {
      group.send(operand, rank);
      operand.data = static_cast<const std::byte*>(operand.data) + stride.value * size_of(in.dtype);
    }
    for (int left = counts_[static_cast<std::size_t>(peer)]; left > 0; --left) {
      group.receive(slice(free, {0}, mine), rank);
      free = slice(free, mine, {free.count.value - mine.value});
    }
  }
  group.close();
}

void TreeOrderStage::add_up(const ConstBuffer& in, Count stride, const void* scratch, const Buffer& out, ReduceOp op,
                            cudaStream_t stream) {
  const ConstBuffer own = own_part(in);
  operands_.own = own.data;
  operands_.own_stride = stride.value;
  operands_.others = scratch;
  operands_.count = own.count.value;
  LOCKSTEP_CUDA_CHECK(kernels::cuda::launch_canonical_fold(operands_, own_part(out).data, own.dtype, op, stream));
}

void TreeOrderStage::share(const Buffer& out, ncclComm_t communicator, cudaStream_t stream) const {
  MessageGroup group(communicator, stream);
  for (int peer = 0; peer < std::ssize(peers_); ++peer) {
    if (peer == me_) continue;
    const int rank = peers_[static_cast<std::size_t>(peer)];
    group.send(own_part(out), rank);
    group.receive(part(out, peer), rank);
  }
  group.close();
}

TreeOrderAllReduce::TreeOrderAllReduce(const Collective& collective, Rank me, const ClusterShape& shape,
                                       const Allocation& scratch)
    : in_(collective.in),
      stride_(collective.leaves.stride),
      out_(collective.out),
      op_(collective.op),
      scratch_(scratch.data()) {
  const LeafShares shares = shares_of(collective, shape.ranks());
  const std::vector<LeafNode> subtrees = subtrees_of_nodes(shares, shape);
  const int nodes = std::max(1, static_cast<int>(subtrees.size()));
  const int on_node = shape.ranks() / nodes;
  // Every rank has the same blocks. The second stage receives no more than the first one.
  int most_received = 0;
  for (int node = 0; node < nodes; ++node) {
    const int first = node * on_node;
    TreeOrderStage stage =
        stage_of(shares, shape.ranks(), first, on_node, std::clamp(me.value, first, first + on_node - 1));
    most_received = std::max(most_received, stage.most_received());
    if (me.value / on_node == node) stages_.push_back(std::move(stage));
  }
  block_ = scratch.bytes().value / (most_received * size_of(in_.dtype)) * on_node;
  if (nodes == 1) return;
  std::vector<int> like_me;
  std::vector<std::vector<LeafNode>> sums;
  for (int node = 0; node < nodes; ++node) {
    like_me.push_back(node * on_node + me.value % on_node);
    sums.push_back({subtrees[static_cast<std::size_t>(node)]});
  }
  stages_.emplace_back(std::move(like_me), me.value / on_node, sums);
}

void TreeOrderAllReduce::launch_next_part(ncclComm_t communicator, cudaStream_t stream) {
  const std::int64_t begin = next_ / parts_of_block() * block_;
  const Count count{std::min(block_, in_.count.value - begin)};
  const auto part = static_cast<std::size_t>(next_++ % parts_of_block());
  const std::size_t stages = stages_.size();
  // The ranges of the stages: each stage works on this rank's part of the one before, and on its sums.
  std::vector<Buffer> out{slice(out_, {begin}, count)};
  for (std::size_t stage = 0; stage + 1 < stages; ++stage) out.push_back(stages_[stage].own_part(out[stage]));
  const auto in_of = [&](std::size_t stage) {
    return stage == 0 ? slice(in_, {begin}, count) : ConstBuffer(out[stage]);
  };
  if (part > 0 && part <= stages) {
    TreeOrderStage& summing = stages_[part - 1];
    summing.add_up(in_of(part - 1), stride_, scratch_, out[part - 1], op_, stream);
  }
  if (part < stages) {
    stages_[part].exchange(in_of(part), stride_, scratch_, communicator, stream);
  } else {
    const std::size_t stage = 2 * stages - 1 - part;
    stages_[stage].share(out[stage], communicator, stream);
  }
}

}  // namespace lockstep::backends
