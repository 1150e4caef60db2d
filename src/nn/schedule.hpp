// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/nn/model.hpp"
#include "nn/kernels.hpp"
#include "nn/memory_plan.hpp"
#include "nn/step.hpp"

namespace lockstep::nn {

/// Where an operand lies, before it has an address.
struct Operand {
  enum class Kind { none, activation, input, parameter, gradient, state, figures, factor };
  Kind kind = Kind::none;
  int index = 0;          ///< of a buffer of the schedule, an input, a tensor of a layout, or a loss term
  std::int64_t leaf = 0;  ///< of an input: the first of its samples; of figures: whose they are
};

/// A part of a rank's samples that runs through the graph by itself: a micro-batch.
struct Leaf {
  const Kernels* kernels = nullptr;  ///< for as many samples as it has
  std::int64_t first = 0;            ///< of its samples
};

/// A pass of an operator, with its operands.
struct PlannedRun {
  ops::Kernel* kernel = nullptr;
  ops::Pass pass = ops::Pass::forward;
  std::string label;
  int node = -1;  ///< −1 for what brings values into other formats, or adds
  std::size_t leaf = 0;
  std::vector<Operand> inputs;
  std::vector<Operand> parameters;
  std::vector<Operand> state;
  Operand output;
  Operand saved;
  Operand output_gradient;
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
  std::int64_t count = 0;  ///< doubles of each rank
};
/// What a kernel will add to.
struct PlannedZero {
  Operand what;
  Bytes bytes;
};

using PlannedItem =
    std::variant<PlannedRun, PlannedZero, PlannedGather, Ready, Progress, SumWeights, SetFactors, Finish, Gate>;

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
/// is ready after the last of its users. Leaves run one after the other, their gradients are added; what all of their
/// targets weigh is known before the first.
/// @param leaves  at least one; their kernels outlive the schedule
/// @param ranks   that exchange what operators measure
Schedule schedule_training(const Graph& graph, std::span<const Leaf> leaves, int ranks);
/// The same forward only, by running statistics, of one leaf.
Schedule schedule_evaluation(const Graph& graph, const Kernels& kernels);

}  // namespace lockstep::nn
