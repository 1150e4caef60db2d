// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/plan/medium.hpp"
#include "backends/plan/node_link.hpp"
#include "backends/plan/schedule_cache.hpp"
#include "collectives/schedule/blocks.hpp"
#include "kernels/reduce.hpp"
#include "lockstep/base/buffer.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::backends {

/// Does the same as kernels::combine in the canonical order (`expression.hpp`), with every sum rounded to the
/// type: the result is bitwise equal to that of ranks that exchange their sums pairwise. It is reused from step to
/// step, and allocates only for more outputs than ever before.
/// @cost  each input is read once, each output written once; intermediate sums stay in the cache
class CanonicalCombine {
 public:
  /// @param widths  number of leaves of each input, if it is a sum of several; empty: one each
  void operator()(std::span<void* const> outs, std::span<const void* const> ins, std::span<const int> widths,
                  Count count, DType dtype, ReduceOp op, kernels::Residence residence);

 private:
  std::vector<void*> tiles_;  // one tile of each output
};

/// The caller's memory for one operation.
struct Operands {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  std::int64_t stride = 0;      ///< elements from one of a rank's inputs to the next; the same on all ranks
  int rank = 0;                 ///< the rank that owns the memory
  Announcement announcement{};  ///< shown to the node's ranks; its signature is in every message
  std::uint64_t number = 0;     ///< running number of the operation
  kernels::Residence residence = kernels::Residence::cache;  ///< where the buffers of a Combine reside
};

/// Runs a plan for one block of the buffer: posts every step that may start, and processes arrived messages. It is
/// reused from block to block, and allocates only for a plan that is larger than any before.
class BlockRun {
 public:
  /// @param link  link to the ranks of the node; null if plans have only messages
  explicit BlockRun(Medium& medium, NodeLink* link = nullptr) : medium_(&medium), link_(link) {}

  /// @param operands  outlive the run
  /// @param channel   channel of its messages and of the link
  /// @pre the previous run is done. @throws Error{transport | mismatch}
  void start(const CompiledPlan& plan, const collectives::BlockView& view, const Operands& operands, int channel);
  /// Advances as far as possible without waiting. @return whether anything advanced. @throws Error{transport |
  /// mismatch}
  bool advance();
  [[nodiscard]] bool done() const { return plan_ == nullptr || left_ == 0; }

  /// Returns whether it waits only for ranks of its node. @pre !done()
  [[nodiscard]] bool awaits_no_message() const;

  /// The step and peer that it waits for: the earliest message in flight, or the first awaited rank. The step is −1
  /// before the first step. @pre !done()
  struct Pending {
    int step;
    int peer;
  };
  [[nodiscard]] Pending pending() const;
  /// Adds all ranks that it waits for. @pre !done(). @throws Error{mismatch}
  void add_awaited(std::vector<int>& ranks) const;

 private:
  static constexpr int none = -1;
  struct Flight {
    int step;
    Medium::Ticket ticket;
  };

  /// Allocates scratch and landing buffers.
  void make_room();
  /// Opens the block on the link if the plan shares memory, then begins. @return whether the block could be opened
  bool open();
  bool advance_in_order();
  void prefetch_next() const;
  void post_ready();
  /// Executes a step that is done when this function returns.
  void execute(const collectives::Step& step);
  void reduce(const collectives::Range& to, const std::byte* own, const std::byte* other,
              collectives::FirstOperand first) const;
  void combine(const collectives::Combine& step);
  [[nodiscard]] bool test(const Flight& flight);
  [[nodiscard]] int awaited(const collectives::Await& step) const;
  [[nodiscard]] std::byte* address_of(const collectives::NodeRange& at) const;
  void post(int step);
  void release(const std::vector<int>& followers);
  void finish(int step);
  /// Returns the position by the view, without a division if the offset is in the first part.
  [[nodiscard]] std::int64_t input_position(int owner, std::int64_t plan_offset) const {
    const bool is_first_part = view_.table == nullptr && plan_offset < view_.part_count;
    return is_first_part ? view_.offset + plan_offset : view_.input(owner, plan_offset);
  }
  [[nodiscard]] std::int64_t output_position(int owner, std::int64_t plan_offset) const {
    const bool is_first_part = view_.table == nullptr && plan_offset < view_.part_count;
    return is_first_part ? view_.offset + plan_offset : view_.output(owner, plan_offset);
  }
  [[nodiscard]] std::byte* address(const collectives::Range& range) const;
  [[nodiscard]] const std::byte* source(const collectives::Range& range) const;
  [[nodiscard]] std::byte* landing(int step);
  [[nodiscard]] MessageTag tag() const { return {channel_, operands_->number, operands_->announcement.signature}; }
  [[nodiscard]] Bytes bytes(const collectives::Range& range) const { return {range.count * size_of(operands_->dtype)}; }

  Medium* medium_;
  NodeLink* link_;
  const CompiledPlan* plan_ = nullptr;
  collectives::BlockView view_{1, 0, 0};
  const Operands* operands_ = nullptr;
  int channel_ = 0;
  int left_ = 0;
  int awaited_to_open_ = none;     // rank that has not yet entered an earlier block of this channel
  std::size_t next_in_order_ = 0;  // for a plan that runs in order
  std::vector<int> waits_;         // by step: number of outstanding events
  std::vector<int> ready_;         // all steps, in the order in which they may start
  std::size_t next_ready_ = 0;
  std::vector<Flight> flights_;
  Allocation memory_;  // scratch, then the landing buffers
  std::byte* scratch_ = nullptr;
  std::byte* landings_ = nullptr;
  std::vector<void*> targets_;  // operands of a Combine
  std::vector<const void*> sources_;
  CanonicalCombine canonical_combine_;
};

}  // namespace lockstep::backends
