// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "lockstep/base/leaves.hpp"
#include "lockstep/nn/graph.hpp"
#include "lockstep/ops/ops.hpp"
#include "nn/plan/kernels.hpp"

namespace lockstep::nn {

/// Marks work that runs on its own after lanes have joined.
inline constexpr int no_lane = -1;
/// Marks a buffer that all lanes use.
inline constexpr int all_lanes = -1;

/// An operand before it has an address.
struct Operand {
  enum class Kind { none, activation, input, parameter, gradient, state, loss_sums, factor };
  Kind kind = Kind::none;
  int index = 0;  ///< index of a buffer of the plan, an input, a tensor of a layout, or a loss term
  /// For an input: its first sample; for loss_sums: the leaf; for a gradient: the gradient buffer; for state: the
  /// rank's shard; for a buffer: the offset in bytes.
  std::int64_t which = 0;

  friend bool operator==(const Operand&, const Operand&) = default;
};

/// A part of a rank's samples that runs through the graph by itself: a micro-batch of a shard.
struct Leaf {
  const Kernels* kernels = nullptr;  ///< made for its number of samples; no other lane uses them
  std::int64_t first = 0;            ///< its first sample
  int shard = 0;                     ///< index among the rank's shards
  int micro_batch = 0;               ///< index among the shard's micro-batches
  int lane = 0;
};

/// An addition of one gradient buffer to another: to += from.
struct GradientAddition {
  int to = 0;
  int from = 0;
  friend bool operator==(const GradientAddition&, const GradientAddition&) = default;
};

/// The order in which a rank adds the gradients of its shards: the canonical order over all shards. Each is added
/// as soon as its neighbor in the tree is complete. At the end the gradient buffers 0, 1, … hold the sums `tree_nodes`
/// of the rank's shards.
struct GradientAdditions {
  std::vector<int> place;                            ///< the gradient buffer of each of the rank's shards
  std::vector<std::vector<GradientAddition>> after;  ///< the additions to make after each shard
  std::vector<GradientAddition> last;                ///< the additions to make after all shards
  int places = 0;                                    ///< number of gradient buffers
};

/// @param shards   number of shards of all ranks
/// @param own      this rank's shards; at least one
/// @param streams  consecutive ranges of the rank's shards, counted from its first; none is empty. The shards of a
///        stream run one after the other; the streams are independent until the end.
GradientAdditions plan_gradient_additions(int shards, const Share& own, std::span<const Share> streams);

/// The division of a step into leaves, and the number of parts that exchange statistics.
struct Cut {
  GradientAdditions additions;
  int micro_batches = 1;  ///< number of micro-batches of each shard
  int lanes = 1;          ///< number of lanes in which leaves run
  int parts = 1;  ///< number of parts of a step, over all ranks, whose operators exchange their local statistics
};

/// A pass of an operator, with its operands.
struct PlannedRun {
  ops::Kernel* kernel = nullptr;
  ops::Pass pass = ops::Pass::forward;
  std::string label;
  int node = -1;  ///< −1 for a conversion or an addition
  std::size_t leaf = 0;
  int lane = 0;
  std::vector<Operand> inputs;
  std::vector<Operand> parameters;
  std::vector<Operand> state;
  Operand output;
  Operand saved;
  Operand workspace;
  Operand output_gradient;
  Operand second_output_gradient;
  std::vector<Operand> input_gradients;
  std::vector<Operand> parameter_gradients;
  Operand part;
  Operand parts;
  std::int64_t parts_count = 0;
};
/// Copies parameters into the layouts that kernels read.
struct PlannedPack {
  struct Copy {
    const ops::Kernel* kernel;
    int parameter;  ///< index among the operator's parameters
    Operand from;
    Operand to;
  };
  std::vector<Copy> copies;
};
/// An all-gather of numbers over the ranks.
struct PlannedGather {
  Operand own;
  Operand all;
  std::int64_t own_count = 0;  ///< number of doubles from this rank
  std::int64_t all_count = 0;
};
/// Zeros memory that a kernel will add to.
struct PlannedZero {
  Operand what;
  Bytes bytes;
  int lane = 0;
};

/// Waits until all lanes have run what precedes it.
struct Join {};
/// Polls the communication that is under way.
struct Poll {};
/// Computes scalars from others.
struct Compute {
  ops::StepStage stage;
};
/// Sums the weights of loss terms that are normalized by weight, over ranks.
struct PlannedWeights {};
/// Checks this rank's gradient of a parameter, which is complete, and starts to reduce it.
struct PlannedReduce {
  int parameter;
};
/// Completes the reduction, decides about the update, and makes it.
struct PlannedUpdate {};

using PlannedItem = std::variant<PlannedRun, PlannedPack, PlannedZero, PlannedGather, Join, PlannedReduce, Poll,
                                 PlannedWeights, Compute, PlannedUpdate>;

/// Memory that must hold its contents during the moments `first` … `last`, both included.
struct Lifetime {
  Bytes bytes;
  int first = 0;
  int last = 0;
  int lane = 0;  ///< the lane that uses it; moments of different lanes are unordered
};

/// A list of items over buffers that have no addresses yet. The moments of lifetimes are indices of items.
struct StepPlan {
  std::vector<PlannedItem> items;
  std::vector<Lifetime> buffers;
  std::vector<std::int64_t> first_samples;  ///< the first sample of each leaf
  std::vector<Operand> outputs;             ///< of an evaluation: the graph's outputs, which live to the end
};

/// Calls `f(operand)` for every operand of an item.
template <typename Planned, typename F>
void for_each_operand(Planned& item, const F& f) {
  std::visit(
      [&](auto& of) {
        using Item = std::remove_const_t<std::remove_reference_t<decltype(of)>>;
        if constexpr (std::is_same_v<Item, PlannedRun>) {
          for (auto* operands : {&of.inputs, &of.parameters, &of.state, &of.input_gradients, &of.parameter_gradients})
            std::for_each(operands->begin(), operands->end(), f);
          for (auto* operand : {&of.output, &of.saved, &of.workspace, &of.output_gradient, &of.second_output_gradient,
                                &of.part, &of.parts})
            f(*operand);
        } else if constexpr (std::is_same_v<Item, PlannedPack>) {
          for (auto& copy : of.copies) {
            f(copy.from);
            f(copy.to);
          }
        } else if constexpr (std::is_same_v<Item, PlannedZero>) {
          f(of.what);
        } else if constexpr (std::is_same_v<Item, PlannedGather>) {
          f(of.own);
          f(of.all);
        } else {
          static_assert(std::is_empty_v<Item> || std::is_same_v<Item, PlannedReduce> || std::is_same_v<Item, Compute>,
                        "operands of a new kind of item have to be visited here");
        }
      },
      item);
}

/// Holds buffers that all lanes use until the lanes join, because a lane may be at an earlier item than the last user.
void hold_until_joined(StepPlan& plan);

/// Returns for each value whether it depends on parameters and therefore has a gradient.
std::vector<bool> differentiable(const Graph& graph);

/// Plans a training step: the normalizers of the losses, forward, backward, sums over ranks, and the decision about
/// the update. Nodes that no loss depends on are left out. A value's memory is held until its last reader has run.
/// Backward passes are in the reverse order of the graph, and a parameter is ready after the last of its users. The
/// normalizers of all leaves are known before the first leaf runs.
///
/// Leaves of a lane run one after the other. If operators exchange local statistics, all shards advance together, node
/// by node, one micro-batch at a time. A leaf's gradients are added to those of its shard, and `Cut::additions` says
/// how those of the shards are added.
/// @param leaves  at least one, shard by shard and micro-batch by micro-batch; their kernels outlive the plan. The
///        leaves of a stream of `plan_gradient_additions` are in one lane
StepPlan plan_training(const Graph& graph, std::span<const Leaf> leaves, const Cut& cut);
/// Plans the forward pass of one leaf for evaluation, with running statistics, and its outputs. Nodes that only
/// auxiliary losses depend on are left out.
StepPlan plan_evaluation(const Graph& graph, const Kernels& kernels);

// Passes over a plan change how a step is computed, but none of its results.

/// Recomputes values that are kept for the backward pass only, if their operators can. A recomputation comes right
/// before its first reader in the backward pass, so the memory is free in between.
StepPlan recompute(StepPlan plan);
/// Removes the sum of two gradients if its only reader can take the two terms.
StepPlan fuse_sums(StepPlan plan);
/// Lets an operator write its input's gradient over its output's gradient, if it can.
StepPlan share_gradients(StepPlan plan);

/// The offsets of buffers in one allocation.
struct MemoryPlan {
  std::vector<Bytes> offsets;  ///< one for each buffer; multiples of 256 bytes
  Bytes total;
};

/// Places buffers so that no two overlap if they are alive at the same moment or belong to different lanes. The largest
/// buffer comes first, and each gets the lowest offset that is free throughout its life.
/// @cost O(n²) for n buffers
/// @source Pisarchyk & Lee: Efficient memory management for deep neural net inference, 2020 (greedy by size)
MemoryPlan plan_memory(std::span<const Lifetime> buffers);

}  // namespace lockstep::nn
