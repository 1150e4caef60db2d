// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/nn/model.hpp"
#include "nn/folds.hpp"
#include "nn/kernels.hpp"
#include "nn/memory_plan.hpp"
#include "nn/step.hpp"

namespace lockstep::nn {

/// Where an operand lies, before it has an address.
struct Operand {
  enum class Kind { none, activation, input, parameter, gradient, state, loss_sums, factor };
  Kind kind = Kind::none;
  int index = 0;  ///< of a buffer of the schedule, an input, a tensor of a layout, or a loss term
  /// Of an input: the first of its samples; of loss_sums: the leaf; of a gradient: in which of the places; of state:
  /// the rank's shard; of a buffer: bytes from its beginning.
  std::int64_t which = 0;
};

/// A part of a rank's samples that runs through the graph by itself: a micro-batch of a shard.
struct Leaf {
  const Kernels* kernels = nullptr;  ///< for as many samples as it has, of its lane alone
  std::int64_t first = 0;            ///< of its samples
  int shard = 0;                     ///< of the rank's
  int micro_batch = 0;               ///< of the shard's
  int lane = 0;
};

/// What is cut into leaves, and who exchanges.
struct Cut {
  FoldPlan folds;
  int micro_batches = 1;  ///< of each shard
  int lanes = 1;          ///< that leaves run in
  int parts = 1;          ///< of a step over all ranks that operators exchange what they measure between
};

/// A pass of an operator, with its operands.
struct PlannedRun {
  ops::Kernel* kernel = nullptr;
  ops::Pass pass = ops::Pass::forward;
  std::string label;
  int node = -1;  ///< −1 for what brings values into other formats, or adds
  std::size_t leaf = 0;
  int lane = 0;
  std::vector<Operand> inputs;
  std::vector<Operand> parameters;
  std::vector<Operand> state;
  Operand output;
  Operand saved;
  Operand output_gradient;
  Operand second_output_gradient;
  std::vector<Operand> input_gradients;
  std::vector<Operand> parameter_gradients;
  Operand part;
  Operand parts;
  std::int64_t parts_count = 0;
};
/// What every rank gets of every other.
struct PlannedGather {
  Operand own;
  Operand all;
  std::int64_t own_count = 0;  ///< doubles that this rank has
  std::int64_t all_count = 0;
};
/// What a kernel will add to.
struct PlannedZero {
  Operand what;
  Bytes bytes;
  int lane = 0;
};

using PlannedItem =
    std::variant<PlannedRun, PlannedZero, PlannedGather, Join, Ready, Progress, SumWeights, SetFactors, Finish, Gate>;

/// A list of items over buffers whose addresses are not decided yet. Moments are indices of items.
struct Schedule {
  std::vector<PlannedItem> items;
  std::vector<Lifetime> buffers;
  std::vector<std::int64_t> first_samples;  ///< of each leaf
};

/// Which values lead back to parameters, and so have gradients.
std::vector<bool> differentiable(const Graph& graph);

/// A step of training: what targets weigh, forward, backward, sums over ranks, the decision about the update. A value's
/// memory is held until its last reader has run; backward passes are in the reverse order of the graph, and a parameter
/// is ready after the last of its users. What all leaves' targets weigh is known before the first of them.
///
/// Leaves of a lane run one after the other, or, where operators exchange what they measure, item by item, one
/// micro-batch of all shards at a time. A leaf's gradients are added to those of its shard, and shards' as the folds
/// say.
/// @param leaves  at least one, shard by shard and micro-batch by micro-batch; their kernels outlive the schedule.
/// Those
///                of a stream of the folds are in one lane
Schedule schedule_training(const Graph& graph, std::span<const Leaf> leaves, const Cut& cut);
/// The same forward only, by running statistics, of one leaf.
Schedule schedule_evaluation(const Graph& graph, const Kernels& kernels);

}  // namespace lockstep::nn
