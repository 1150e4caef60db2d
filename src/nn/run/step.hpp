// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/base/leaves.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/ops/ops.hpp"
#include "nn/plan/step_plan.hpp"

/// A training step as a value: a list of items whose operands are addresses. What an item does depends on memory alone,
/// never on a number that the host computes in between, so a list can be captured once and run often.
namespace lockstep::nn {

/// The scalars of a step in the memory of a device, and the host's view of those that it sets and reads. Upload copies
/// what the host has set to the device, and Download copies the results back; if the device is the host, both views are
/// the same memory. Otherwise there is a view for each slot, so that the host can set a step, or read one, while
/// another one runs.
class StepNumbers {
 public:
  /// @param slots  1 if the device is the host
  StepNumbers(const ops::ComputeDevice& device, const Graph& graph, const ModelOptions& options, int slots);

  [[nodiscard]] const ops::StepBlock& block() const { return block_; }  ///< addresses on the device
  /// Numbers on the device as a buffer.
  [[nodiscard]] Buffer numbers(double* first, std::int64_t count) const {
    return {first, {count}, DType::float64, memory_.kind()};
  }
  void upload(int slot, Queue queue) const;
  void download(int slot, Queue queue) const;
  /// Overwrites the state that the next step starts from. @pre no step is under way
  void set_state(const ops::StepState& state);

  // The host sets these before a step.
  [[nodiscard]] StepScalars& scalars(int slot) { return *host(slot).scalars; }
  [[nodiscard]] std::span<std::int64_t> first_samples(int slot) { return {host(slot).first_samples, leaves()}; }
  // The host reads these afterwards.
  [[nodiscard]] const StepResult& result(int slot) const { return *host(slot).result; }
  [[nodiscard]] std::span<const ops::LossSums> rank(int slot) const { return {host(slot).rank, terms()}; }
  /// Returns the first bad value of each leaf.
  [[nodiscard]] std::span<const ops::Fault> faults(int slot) const { return {host(slot).faults, leaves()}; }
  /// The sums of the first leaf.
  [[nodiscard]] std::span<const ops::LossSums> first_leaf(int slot) const { return {host(slot).own, terms()}; }
  /// Returns a number for each parameter: not 0 if this rank's gradient, or the sum over ranks, was not finite.
  [[nodiscard]] std::span<const double> not_finite(int slot) const {
    return {host(slot).not_finite, static_cast<std::size_t>(block_.parameters)};
  }
  [[nodiscard]] std::span<const double> sums_not_finite(int slot) const {
    return {host(slot).found + 1, static_cast<std::size_t>(block_.parameters)};
  }

 private:
  [[nodiscard]] const ops::StepBlock& host(int slot) const { return hosts_[static_cast<std::size_t>(slot)]; }
  [[nodiscard]] std::size_t terms() const { return static_cast<std::size_t>(block_.terms); }
  [[nodiscard]] std::size_t leaves() const { return static_cast<std::size_t>(block_.leaves()); }

  const ops::ComputeDevice* device_;
  ops::StepBlock block_;
  std::vector<ops::StepBlock> hosts_;  // by slot
  Bytes uploaded_;                     // the first bytes of the memory are set by the host
  Bytes downloaded_;                   // the bytes after them are read by the host
  Allocation memory_;
  Allocation staging_;
};

/// Returns the weightings of the loss terms in the objective.
std::vector<ops::LossWeighting> weightings_of(const Graph& graph);

/// One pass of an operator. The runs of a lane keep their order; lanes are independent up to the next `Join`.
struct RunKernel {
  ops::Kernel* kernel;
  ops::Pass pass;
  const ops::Arguments* call;
  const std::string* label;
  int lane = 0;
};
/// Zeros memory that a kernel will add to.
struct Zero {
  void* data;
  Bytes bytes;
  int lane = 0;
};
/// Copies parameters into the layouts that kernels read.
struct PackParameters {
  std::vector<ops::PackedParameter> parameters;
};
/// Copies an output of the graph to the host.
struct CopyOutput {
  void* to;
  const void* from;
  Bytes bytes;
};
/// Copies the scalars that the host has set to the device.
struct Upload {
  int slot;
};
/// Copies the results of the step to the host.
struct Download {
  int slot;
};
/// Starts to reduce this rank's gradient of a parameter, which is complete.
struct ReduceGradient {
  int parameter;
};
/// Finds out which of adjacent tensors have values that are not finite. @see ops::Ops::count_not_finite
struct CountNotFinite {
  ConstBuffer values;
  std::vector<std::int64_t> ends;
  double* counts;
};
/// Adds up squares.
struct AddSquares {
  ConstBuffer values;
  double* sum;
};
/// Waits until the gradients, and the numbers beside them, are summed over ranks.
struct FinishReduction {
  Buffer numbers;
};
/// All-gathers the numbers of the ranks.
struct GatherOverRanks {
  Buffer own;
  Buffer all;
};
/// Adds up what the trust ratios of the same updates need.
struct MeasureUpdate {
  std::vector<ops::UpdateStep> steps;
};
/// Sums numbers over ranks.
struct SumOverRanks {
  Buffer numbers;
};
/// The name of the update in traces and reports.
inline constexpr std::string_view update_label = "update";
/// Updates the parameters, of which each step has a range.
struct Update {
  std::vector<ops::UpdateStep> steps;
};
/// Updates the EMA weights, after the weights.
struct Average {
  ops::AverageStep step;
};

/// All-gathers the weights that each rank has updated.
struct GatherParameters {};

using Item = std::variant<CopyOutput, Upload, PackParameters, RunKernel, Zero, Join, ReduceGradient, Poll, Compute,
                          CountNotFinite, AddSquares, SumOverRanks, GatherOverRanks, FinishReduction, MeasureUpdate,
                          Update, Average, GatherParameters, Download>;

/// Takes the items of a list in order. The items live until the list has run.
class ItemQueue {
 public:
  virtual ~ItemQueue() = default;
  virtual void submit(const Item& item) = 0;
};

}  // namespace lockstep::nn
