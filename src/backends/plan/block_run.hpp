#pragma once

#include <cstddef>
#include <vector>

#include "backends/plan/compiled_plan.hpp"
#include "backends/plan/medium.hpp"
#include "lockstep/base/buffer.hpp"
#include "lockstep/collectives/blocks.hpp"

namespace lockstep::backends {

/// The caller's memory for one operation.
struct Operands {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
};

/// Drives a plan over one block of the buffer: posts every step that may start, and takes up what has arrived.
/// Reused from block to block; allocates only when a plan is larger than any before.
class BlockRun {
 public:
  explicit BlockRun(Medium& medium) : medium_(&medium) {}

  /// @pre the run before it is done. @throws Error{transport}
  void start(const CompiledPlan& plan, const collectives::BlockView& view, const Operands& operands, int tag);
  /// Moves as far as it goes without waiting. @return whether anything moved. @throws Error{transport}
  bool advance();
  [[nodiscard]] bool done() const { return plan_ == nullptr || left_ == 0; }

  /// What it waits for: the earliest message under way. @pre !done()
  struct Pending {
    int step;
    int peer;
  };
  [[nodiscard]] Pending pending() const;

 private:
  struct Flight {
    int step;
    Medium::Ticket ticket;
  };

  void post_ready();
  void post(int step);
  void release(const std::vector<int>& followers);
  void finish(int step);
  [[nodiscard]] std::byte* address(const collectives::Range& range) const;
  [[nodiscard]] const std::byte* source(const collectives::Range& range) const;
  [[nodiscard]] std::byte* landing(int step);
  [[nodiscard]] Bytes bytes(const collectives::Range& range) const { return {range.count * size_of(operands_.dtype)}; }

  Medium* medium_;
  const CompiledPlan* plan_ = nullptr;
  collectives::BlockView view_{1, 0, 0};
  Operands operands_;
  int tag_ = 0;
  int left_ = 0;
  std::vector<int> waits_;  // per step, events still to come
  std::vector<int> ready_;  // every step passes through once, in the order in which it may start
  std::size_t next_ready_ = 0;
  std::vector<Flight> flights_;
  Allocation memory_;  // scratch, then the landing buffers
  std::byte* scratch_ = nullptr;
  std::byte* landings_ = nullptr;
};

}  // namespace lockstep::backends
