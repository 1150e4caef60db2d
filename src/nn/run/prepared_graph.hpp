// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "lockstep/nn/model.hpp"
#include "nn/plan/kernels.hpp"
#include "nn/run/placed_steps.hpp"
#include "nn/run/runner.hpp"

namespace lockstep::nn {

/// The division of a step.
struct StepShape {
  int shards = 1;          ///< number of shards of a step, over all ranks
  Share own_shards{0, 1};  ///< this rank's shards
  int micro_batches = 1;   ///< number of micro-batches of each shard
  int parts = 1;           ///< number of parts of a step whose operators exchange their local statistics
};
/// Plans the gradient buffers and additions of the rank's shards.
GradientAdditions gradient_additions_of(const Graph& graph, const StepShape& shape, int lanes);

/// A graph prepared for one number of samples.
class PreparedGraph {
 public:
  /// @param graph  outlives this, as do the lanes
  /// @param shape  shape of training steps; an evaluation is one leaf
  PreparedGraph(const Graph& graph, const Lanes& lanes, DType dtype, std::int64_t samples, const StepShape& shape,
                const OptimizationPasses& passes)
      : graph_(graph), lanes_(lanes), dtype_(dtype), samples_(samples), shape_(shape), passes_(passes) {}

  /// `training` and `evaluation` make their list at the first call.
  /// @param arena  memory of the device that the list may take, beside what is free there
  PlacedSteps& training(Bytes arena = {0});
  PlacedSteps& evaluation();
  [[nodiscard]] bool has(bool training) const { return training ? training_.has_value() : evaluation_.has_value(); }
  void drop_graphs() {
    if (training_) training_->drop_graphs();
  }
  /// Returns the memory that the lists made so far need.
  [[nodiscard]] Bytes arena_bytes() const;
  void place(const StepMemory& memory);
  /// Reports one operator of the training list. @pre its node is not −1
  [[nodiscard]] OperatorReport report(const PlannedRun& run) const;

 private:
  const Kernels& kernels_for(std::int64_t samples, int lane);

  const Graph& graph_;
  const Lanes& lanes_;
  DType dtype_;
  std::int64_t samples_;
  StepShape shape_;
  OptimizationPasses passes_;
  std::map<std::pair<int, std::int64_t>, Kernels> kernels_;  // by lane and number of samples
  std::optional<PlacedSteps> training_;
  std::optional<PlacedSteps> evaluation_;
};

}  // namespace lockstep::nn
