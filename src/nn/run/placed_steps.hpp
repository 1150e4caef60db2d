// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lockstep/nn/model.hpp"
#include "nn/plan/step_plan.hpp"
#include "nn/run/step.hpp"

namespace lockstep::nn {

/// The memory that the operands of a list point to.
struct StepMemory {
  std::byte* arena = nullptr;  ///< at least as long as the plan's total
  Model::Memory tensors;
  StepNumbers* numbers = nullptr;
  /// By slot, where kernels find the inputs. In a list without inputs `PlacedSteps::set_inputs` says it.
  std::span<const std::vector<const void*>> slots;
  std::span<const LayoutPart> summed;   ///< the parts of the layout whose gradients are sums over ranks on this rank
  std::span<const LayoutPart> clipped;  ///< those that count for the norm; empty without clipping
  int own_sums = 1;                     ///< number of gradient buffers that this rank contributes to each reduction
  std::span<const ops::UpdateStep> updates;
  std::span<const LayoutPart> owned;  ///< the parts of the layout that this rank updates
  ops::StepOptions options;
  Count state_of_shard;                        ///< from the state of one shard to that of the next
  bool reads_averages = false;                 ///< whether kernels read the EMA of the running statistics
  const ops::ComputeDevice* device = nullptr;  ///< where the memory is
};

/// A step plan with its memory plan and, once it is placed, the list of items.
class PlacedSteps {
 public:
  /// @param dtype    type of the real inputs
  /// @param samples  number of samples of the inputs
  PlacedSteps(const Graph& graph, StepPlan plan, const OptimizationPasses& passes, DType dtype, std::int64_t samples);

  [[nodiscard]] const MemoryPlan& plan() const { return plan_; }
  [[nodiscard]] std::span<const Lifetime> lifetimes() const { return step_plan_.buffers; }
  [[nodiscard]] std::span<const PlannedItem> planned() const { return step_plan_.items; }

  /// Makes a list for each slot, with addresses in this memory.
  void place(const StepMemory& memory);
  /// Sets the inputs' addresses in the list of the first slot.
  void set_inputs(std::span<const void* const> inputs) { set_inputs(lists_.front(), inputs); }
  /// The first sample of each leaf.
  [[nodiscard]] std::span<const std::int64_t> first_samples() const { return step_plan_.first_samples; }
  /// @pre it is placed
  [[nodiscard]] std::span<const Item> items(int slot) const { return lists_[static_cast<std::size_t>(slot)].items; }
  /// Whether `submit_or_launch` will capture the step.
  [[nodiscard]] bool will_capture(double global_samples, int slot) const {
    return submitted_.contains(global_samples) &&
           !lists_[static_cast<std::size_t>(slot)].graphs.contains(global_samples);
  }
  /// Submits a training step to the device: the first one of a global batch size as it is, so that libraries can make
  /// connections and plans; after it, the first one of each slot is captured, and it and all later ones are launched.
  /// @param submit  submits the items of the slot
  void submit_or_launch(const ops::ComputeDevice& device, double global_samples, int slot,
                        const std::function<void()>& submit);
  /// Destroys what was captured; steps that follow are captured again.
  void drop_graphs() {
    for (List& list : lists_) list.graphs.clear();
  }
  /// Returns where an evaluation leaves the graph's outputs. @pre it is placed
  [[nodiscard]] std::span<const Buffer> outputs() const { return outputs_; }
  /// Reports the cost of the update. @pre it is placed
  [[nodiscard]] std::vector<OperatorReport> update_reports() const;

 private:
  /// The pointers of one run, to which its arguments refer.
  struct Pointers {
    std::vector<const void*> inputs;
    std::vector<const void*> parameters;
    std::vector<void*> state;
    std::vector<void*> input_gradients;
    std::vector<void*> parameter_gradients;
    ops::Arguments arguments;
  };
  /// A pointer to an input among those of a run.
  struct InputPointer {
    const void** pointer;
    int input;
    std::int64_t offset;  ///< unit: bytes
  };
  struct List {
    std::deque<Pointers> pointers;
    std::vector<InputPointer> inputs;
    std::vector<Item> items;
    std::map<double, std::unique_ptr<ops::ExecutableGraph>> graphs;  ///< by global batch size
    std::map<std::int64_t, Count> ready;  ///< by offset of a bucket: elements that are reduced from here on
  };

  [[nodiscard]] void* address(const Operand& operand, const StepMemory& memory) const;
  [[nodiscard]] void* state_address(const Operand& operand, const StepMemory& memory) const;
  Item placed(const PlannedRun& run, const StepMemory& memory);
  static void set_inputs(List& list, std::span<const void* const> inputs);
  /// Adds an item to the list that is being made.
  void add(const Item& item) { lists_.back().items.push_back(item); }
  void add(const PlannedRun& run, const StepMemory& memory) { add(placed(run, memory)); }
  void add(const PlannedPack& pack, const StepMemory& memory);
  void add(const PlannedZero& zero, const StepMemory& memory);
  void add(const PlannedGather& gather, const StepMemory& memory);
  void add(const PlannedWeights& weights, const StepMemory& memory);
  void add(const PlannedReduce& reduce, const StepMemory& memory);
  void add(const PlannedUpdate& update, const StepMemory& memory);
  void add(const Join& join, const StepMemory& /*memory*/) { add(Item(join)); }
  void add(const Poll& poll, const StepMemory& /*memory*/) { add(Item(poll)); }
  void add(const Compute& compute, const StepMemory& /*memory*/) { add(Item(compute)); }
  void add_check(const ConstBuffer& gradients, const LayoutPart& part, double* marks);
  void add_outputs(const StepMemory& memory);
  void add_reduction(const StepMemory& memory);
  void add_sums(const StepMemory& memory);
  void add_averages(const StepMemory& memory);
  void add_averages(const Buffer& averages, const Buffer& values, std::span<const LayoutPart> parts,
                    const ops::AverageScalars& scalars, const StepMemory& memory);

  const Graph* graph_;
  StepPlan step_plan_;
  DType dtype_;
  std::int64_t samples_;
  MemoryPlan plan_;
  std::deque<List> lists_;       // by slot
  std::set<double> submitted_;   // the global batch sizes that have been submitted as they are
  std::vector<Buffer> outputs_;  // in host memory
  std::vector<Allocation> output_copies_;
};

}  // namespace lockstep::nn
