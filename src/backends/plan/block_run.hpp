// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/plan/canonical_combine.hpp"
#include "backends/plan/compiled_plan.hpp"
#include "backends/plan/medium.hpp"
#include "backends/plan/node_link.hpp"
#include "collectives/algorithms/blocks.hpp"
#include "comm/host_operation.hpp"
#include "kernels/reduce.hpp"
#include "lockstep/base/buffer.hpp"

namespace lockstep::backends {

/// The caller's memory for one operation.
struct Operands {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  std::int64_t stride = 0;                   ///< elements from one of a rank's inputs to the next; the same on all
  int rank = 0;                              ///< whose memory it is
  Announcement announcement{};               ///< to the node's ranks; its signature goes with every message
  std::uint64_t number = 0;                  ///< of the operation
  const HostOperation* operation = nullptr;  ///< whose function an Apply calls
  kernels::Residence residence = kernels::Residence::cache;  ///< of what a Combine reads and writes
};

/// Drives a plan over one block of the buffer: posts every step that may start, and takes up what has arrived.
/// Reused from block to block; allocates only when a plan is larger than any before.
class BlockRun {
 public:
  /// @param link  to the ranks of the node; null where plans have only messages
  explicit BlockRun(Medium& medium, NodeLink* link = nullptr) : medium_(&medium), link_(link) {}

  /// @param operands  outlive the run
  /// @param channel   of its messages and of the link
  /// @pre the run before it is done. @throws Error{transport | mismatch}; what a function throws
  void start(const CompiledPlan& plan, const collectives::BlockView& view, const Operands& operands, int channel);
  /// Moves as far as it goes without waiting. @return whether anything moved. @throws Error{transport | mismatch}
  bool advance();
  [[nodiscard]] bool done() const { return plan_ == nullptr || left_ == 0; }

  /// Whether it waits for nothing but ranks of its node. @pre !done()
  [[nodiscard]] bool awaits_no_message() const;

  /// What it waits for: the earliest message under way, or the first rank that is awaited; step −1 before the first.
  /// @pre !done()
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

  /// For scratch and landing buffers.
  void make_room();
  /// Opens the block on the link if need be, then begins. @return whether it could be opened
  bool open();
  bool advance_in_order();
  void prefetch_next() const;
  void post_ready();
  /// A step that is done when it returns.
  void execute(const collectives::Step& step);
  void combine(const collectives::Combine& step);
  void apply(const collectives::Apply& step);
  [[nodiscard]] bool test(const Flight& flight);
  [[nodiscard]] int awaited(const collectives::Await& step) const;
  [[nodiscard]] std::byte* address_of(const collectives::NodeRange& at) const;
  void post(int step);
  void release(const std::vector<int>& followers);
  void finish(int step);
  /// As the view says, without a division where the buffer is not divided.
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
  int awaited_to_open_ = none;     // a rank that has still to enter an earlier block of this channel
  std::size_t next_in_order_ = 0;  // of a plan without messages
  std::vector<int> waits_;         // per step, events still to come
  std::vector<int> ready_;         // every step passes through once, in the order in which it may start
  std::size_t next_ready_ = 0;
  std::vector<Flight> flights_;
  Allocation memory_;  // scratch, then the landing buffers
  std::byte* scratch_ = nullptr;
  std::byte* landings_ = nullptr;
  std::vector<void*> targets_;  // of a Combine
  std::vector<const void*> sources_;
  CanonicalCombine canonical_combine_;
};

}  // namespace lockstep::backends
