// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/canonical_fold.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep::backends {

/// One exchange of an all-reduce in tree order, among some ranks. Each peer sends part j of its operands to the j-th
/// peer, which then has all operands for its part, and adds them up in the canonical order by a kernel.
class TreeOrderStage {
 public:
  /// @param peers     the ranks, ascending in the order of their leaves; at least two
  /// @param me        the index of this rank among them
  /// @param operands  the nodes of the tree that each peer contributes
  TreeOrderStage(std::vector<int> peers, int me, const std::vector<std::vector<LeafNode>>& operands);

  /// The most operands that a peer receives for each element.
  [[nodiscard]] int most_received() const { return operands_.operands - fewest_; }
  /// The part of a range that a peer adds up.
  template <typename B>
  [[nodiscard]] B part(const B& range, int peer) const {
    const Share share = share_of(range.count.value, peer, static_cast<std::int64_t>(peers_.size()));
    return slice(range, {share.first}, {share.count});
  }
  template <typename B>
  [[nodiscard]] B own_part(const B& range) const {
    return part(range, me_);
  }

  /// Sends the operands, and receives those of the others into scratch.
  /// @param in  the range in this rank's first operand; the others follow at the stride
  void exchange(const ConstBuffer& in, Count stride, void* scratch, ncclComm_t communicator, cudaStream_t stream) const;
  /// Adds this rank's part up. @param out  the range; it may be that of the first operand
  void add_up(const ConstBuffer& in, Count stride, const void* scratch, const Buffer& out, ReduceOp op,
              cudaStream_t stream);
  /// Sends this rank's part of the results to all peers.
  void share(const Buffer& out, ncclComm_t communicator, cudaStream_t stream) const;

 private:
  std::vector<int> peers_;
  int me_;
  std::vector<int> counts_;  // operands of each peer
  int fewest_;
  kernels::cuda::Contributions operands_{};
};

/// An all-reduce in the canonical order, made of messages and a kernel, because NCCL does not document its own order.
/// The buffer is divided into blocks, whose operands fit into scratch.
///
/// There is one stage among all ranks. Where the ranks of each node form a subtree of the canonical tree, there are
/// two, so that between nodes only sums are sent: among the ranks of a node, and then, for the part that a rank has
/// added up, among the ranks with its number on their nodes. With S stages, a block takes 2·S parts: an exchange for
/// each stage, of which the next one begins with the sums of the one before, and the way back. A part may be handed to
/// NCCL when the previous one is on the stream. In place, a part overwrites only what has been sent.
///
/// @cost  for m operands a rank, one stage: (m+1)(p−1)/p·nβ each way, (m+1)(p−1) messages a block. Two stages, with g
///        ranks on each of N nodes: (m+1)(g−1)/g·nβ within a node, and 2(N−1)/N·n/g·β between nodes
/// @source Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004, for reduce-scatter and all-gather;
///         the halves are direct, since only a rank that has every contribution can add in any order
class TreeOrderAllReduce {
 public:
  /// @param shape    the nodes of the ranks, of which there are two at least
  /// @param scratch  device memory, as much on all ranks, which all operations of the stream share
  /// @throws Error{unsupported} if there are more operands than its kernel takes
  TreeOrderAllReduce(const Collective& collective, Rank me, const ClusterShape& shape, const Allocation& scratch);

  void launch_next_part(ncclComm_t communicator, cudaStream_t stream);
  [[nodiscard]] bool all_launched() const { return next_ == parts_of_block() * blocks(); }
  [[nodiscard]] std::int64_t blocks() const { return (in_.count.value + block_ - 1) / block_; }

 private:
  [[nodiscard]] std::int64_t parts_of_block() const { return 2 * std::ssize(stages_); }

  ConstBuffer in_;  // the first operand
  Count stride_;    // from one to the next
  Buffer out_;
  ReduceOp op_;
  void* scratch_;
  std::vector<TreeOrderStage> stages_;
  std::int64_t block_;     // elements of every block but the last
  std::int64_t next_ = 0;  // index of the next part
};

}  // namespace lockstep::backends
