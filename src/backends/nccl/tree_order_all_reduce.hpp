// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstdint>
#include <vector>

#include "backends/nccl/sliced_blocks.hpp"
#include "kernels/cuda/canonical_fold.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep::backends {

/// An all-reduce in the canonical order, made of messages and a kernel, because NCCL does not document its own order.
/// Each block of the buffer takes two parts:
///
/// - every rank sends slice j of its operands to rank j, and then has all operands for its own slice. A rank has one,
/// or
///   with `Leaves` one for each node of the tree that its leaves make;
/// - a kernel adds these, in the canonical order, into the output, and the result is sent to all ranks.
///
/// A part may be handed to NCCL when the previous one is on the stream. In place, the second part overwrites only what
/// the first part has sent.
///
/// @cost  for m operands a rank (m+1)(p−1)/p·nβ each way, (m+1)(p−1) messages a block; the kernel reads m·n bytes and
///        writes n/p
/// @source Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004, for reduce-scatter and all-gather;
///         the halves are direct, since only a rank that has every contribution can add in any order
class TreeOrderAllReduce {
 public:
  /// The size of a communicator's scratch. It is large enough for bandwidth: with 8 ranks, messages have 4.6 MiB.
  static constexpr Bytes scratch_bytes{std::int64_t{32} << 20};

  /// @param scratch  device memory of scratch_bytes, which all operations of the stream share
  /// @pre ranks ≥ 2, and `operands_of` is at most `Contributions::most`
  TreeOrderAllReduce(const Collective& collective, Rank me, int ranks, void* scratch);

  /// The number of operands of all ranks.
  static int operands_of(const Collective& collective, int ranks);

  void launch_next_part(ncclComm_t communicator, cudaStream_t stream);
  [[nodiscard]] bool all_launched() const { return next_ == 2 * blocks_.size(); }

 private:
  void send_contributions(std::int64_t block, ncclComm_t communicator, cudaStream_t stream) const;
  void add_up(std::int64_t block, cudaStream_t stream);
  void send_results(std::int64_t block, ncclComm_t communicator, cudaStream_t stream) const;
  [[nodiscard]] int operands_of_rank(int rank) const;
  [[nodiscard]] ConstBuffer input(std::int64_t block, int rank, int operand) const;
  [[nodiscard]] Buffer output(std::int64_t block, int rank) const;

  ConstBuffer in_;  // the first operand
  Count stride_;    // from one to the next
  Buffer out_;
  ReduceOp op_;
  int me_;
  int ranks_;
  void* scratch_;
  std::vector<int> ends_;  // by rank, the number of operands up to its last one
  kernels::cuda::Contributions operands_;
  SlicedBlocks blocks_;
  std::int64_t next_ = 0;  // index of the next part
};

}  // namespace lockstep::backends
