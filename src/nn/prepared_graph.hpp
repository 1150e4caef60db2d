// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/nn/model.hpp"
#include "nn/kernels.hpp"
#include "nn/schedule.hpp"
#include "nn/step.hpp"

namespace lockstep::nn {

/// Everything that a list's operands are made addresses of.
struct StepMemory {
  std::byte* arena = nullptr;  ///< at least as long as the plan's total
  Model::Memory tensors;
  StepNumbers* numbers = nullptr;
  std::span<const ops::SgdStep> updates;
};

/// A schedule with its memory plan, and, once it is placed, the list of items.
class PlacedSteps {
 public:
  PlacedSteps(const Graph& graph, Schedule schedule, const Passes& passes);

  [[nodiscard]] const MemoryPlan& plan() const { return plan_; }
  [[nodiscard]] std::span<const Lifetime> lifetimes() const { return schedule_.buffers; }
  [[nodiscard]] std::span<const PlannedItem> planned() const { return schedule_.items; }

  /// Makes the list, with addresses in this memory.
  void place(const StepMemory& memory);
  /// Sets the inputs' addresses.
  void feed(std::span<const void* const> inputs);
  /// @pre it is placed
  [[nodiscard]] std::span<const Item> items() const { return items_; }

 private:
  /// Pointers of one run, which its arguments refer to.
  struct Pointers {
    std::vector<const void*> inputs;
    std::vector<const void*> parameters;
    std::vector<void*> state;
    std::vector<void*> input_gradients;
    std::vector<void*> parameter_gradients;
    ops::Arguments arguments;
  };
  /// An input's pointer somewhere among them.
  struct Slot {
    const void** pointer;
    int input;
  };

  [[nodiscard]] void* address(const Operand& operand, const StepMemory& memory) const;
  Item placed(const PlannedRun& run, const StepMemory& memory);
  Item placed(const PlannedZero& zero, const StepMemory& memory) const;

  const Graph* graph_;
  Schedule schedule_;
  MemoryPlan plan_;
  std::deque<Pointers> pointers_;
  std::vector<Slot> slots_;
  std::vector<Item> items_;
};

/// A graph made ready for one number of samples.
class PreparedGraph {
 public:
  /// @param graph  outlives this, as does `ops`
  PreparedGraph(const Graph& graph, ops::Ops& ops, DType dtype, std::int64_t samples, const Passes& passes)
      : graph_(graph), passes_(passes), kernels_(choose_kernels(graph, ops, dtype, samples)) {}

  /// Made when it is first asked for.
  PlacedSteps& training();
  PlacedSteps& evaluation();
  [[nodiscard]] bool has(bool training) const { return training ? training_.has_value() : evaluation_.has_value(); }
  /// Of what has been made.
  [[nodiscard]] Bytes arena_bytes() const;
  void place(const StepMemory& memory);
  /// One operator of the training list. @pre its node is not −1
  [[nodiscard]] OperatorReport report(const PlannedRun& run) const;

 private:
  const Graph& graph_;
  Passes passes_;
  Kernels kernels_;
  std::optional<PlacedSteps> training_;
  std::optional<PlacedSteps> evaluation_;
};

}  // namespace lockstep::nn
