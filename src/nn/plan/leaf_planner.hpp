// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/plan/step_plan.hpp"

namespace lockstep::nn {

/// Appends items to a plan and tracks the lifetimes of the buffers that they use.
class StepPlanBuilder {
 public:
  static constexpr int none = -1;

  /// @param lane  the only lane that uses it, or `all_lanes`
  int new_buffer(Bytes bytes, int lane) {
    step_plan_.buffers.push_back({bytes, now(), now(), lane});
    return static_cast<int>(step_plan_.buffers.size()) - 1;
  }
  /// Notes that the next item uses the buffer. @return an empty operand for `none`
  Operand use(int buffer) {
    if (buffer == none) return {};
    step_plan_.buffers[static_cast<std::size_t>(buffer)].last = now();
    return {Operand::Kind::activation, buffer};
  }

  /// Appends an item, which keeps the buffers that it uses alive.
  template <typename Planned>
  void add(Planned item) {
    const int number = now();
    const PlannedItem& planned = step_plan_.items.emplace_back(std::in_place_type<Planned>, std::move(item));
    for_each_operand(planned, [&](const Operand& operand) {
      if (operand.kind == Operand::Kind::activation)
        step_plan_.buffers[static_cast<std::size_t>(operand.index)].last = number;
    });
  }

  void add_leaf(std::int64_t first_sample) { step_plan_.first_samples.push_back(first_sample); }
  [[nodiscard]] StepPlan take() {
    hold_until_joined(step_plan_);
    return std::move(step_plan_);
  }

 private:
  [[nodiscard]] int now() const { return static_cast<int>(step_plan_.items.size()); }

  StepPlan step_plan_;
};

/// The number of gradients of each parameter that a shard still has to compute.
struct UsersLeft {
  std::vector<int> left;  ///< by parameter
  std::vector<int> all;

  [[nodiscard]] bool is_first(int parameter) const {
    return left[static_cast<std::size_t>(parameter)] == all[static_cast<std::size_t>(parameter)];
  }
};

/// Plans what one leaf does at each node in a step.
class LeafPlanner {
 public:
  /// @param number   index of the leaf
  /// @param place    the gradient buffer of its shard
  /// @param loss_of  the loss term of each node, or −1
  /// @param packed   by node and parameter, the buffer of the copy that its kernel reads, or `none`
  /// @param users    the counts of its shard
  LeafPlanner(const Graph& graph, const Leaf& leaf, std::size_t number, int place,
              const std::vector<bool>& differentiable, const std::vector<int>& loss_of,
              const std::vector<std::vector<int>>& packed, UsersLeft& users, StepPlanBuilder& builder)
      : graph_(&graph),
        leaf_(leaf),
        number_(number),
        place_(place),
        differentiable_(&differentiable),
        loss_of_(&loss_of),
        packed_(&packed),
        users_(&users),
        builder_(&builder),
        value_of_(graph.values().size(), StepPlanBuilder::none),
        statistics_(graph.values().size()),
        gradient_of_(graph.values().size(), StepPlanBuilder::none),
        nodes_(graph.nodes().size()) {}

  [[nodiscard]] const Leaf& leaf() const { return leaf_; }
  [[nodiscard]] const Kernels::OfNode& made(std::size_t node) const { return leaf_.kernels->nodes[node]; }

  /// Plans the normalizer pass of a loss term. It reads targets only, because the network's outputs are not
  /// computed yet.
  void normalizer(int term);
  /// Returns the run of the node's forward pass, and plans the conversions of its inputs before it.
  [[nodiscard]] PlannedRun forward(std::size_t node, ops::Pass pass);

  /// Returns an output of the graph after the forward passes, row-major, and plans its conversion if it needs one.
  [[nodiscard]] Operand output(std::size_t index);

  struct Backward {
    PlannedRun run;
    std::optional<PlannedRun> input_run;  ///< computes the gradients of the inputs, if `run` does not
    std::vector<int> terms;               ///< buffers of input gradients that are to be added, or `none`
    std::vector<int> parts;               ///< buffers of parameter gradients that are to be added, or `none`
  };
  /// Returns the run of the node's backward pass, or nothing if no gradient reaches the node.
  [[nodiscard]] std::optional<Backward> backward(std::size_t node);
  /// Plans the additions of the parameters' gradients that the run has left.
  void add_up_parameters(std::size_t node, const Backward& backward);
  /// Plans the run of the inputs' gradients, if there is one, and their additions.
  void add_up_inputs(std::size_t node, Backward& backward);

 private:
  /// The buffers of one node, as indices into the plan's buffers.
  struct Buffers {
    std::vector<int> converted;  // inputs converted to the node's format, if theirs differs
    int saved = StepPlanBuilder::none;
  };

  [[nodiscard]] Operand loss_sums(int term) const {
    return {Operand::Kind::loss_sums, term, static_cast<std::int64_t>(number_)};
  }
  [[nodiscard]] Operand of_input(int input) const { return {Operand::Kind::input, input, leaf_.first}; }
  [[nodiscard]] Operand gradient(int parameter) const { return {Operand::Kind::gradient, parameter, place_}; }
  [[nodiscard]] std::vector<Operand> parameters(std::size_t node);
  [[nodiscard]] std::vector<Operand> state(const Node& node) const;
  [[nodiscard]] Operand workspace(std::size_t node);
  [[nodiscard]] Operand use_value(int value);
  [[nodiscard]] std::vector<Operand> inputs_of(std::size_t node, std::size_t count);
  [[nodiscard]] int new_buffer(Bytes bytes) { return builder_->new_buffer(bytes, leaf_.lane); }
  [[nodiscard]] int loss_of(std::size_t node) const { return (*loss_of_)[node]; }
  [[nodiscard]] bool leads_back(int value) const { return (*differentiable_)[static_cast<std::size_t>(value)]; }
  [[nodiscard]] ops::Kernel* sum_of(int parameter) const {
    return leaf_.kernels->sum[static_cast<std::size_t>(parameter)].get();
  }
  [[nodiscard]] std::vector<int> neighbors(int value) const;
  void add_statistics(const Node& node, std::int64_t count, PlannedRun& run);
  void convert(ops::Kernel* kernel, const std::string& label, Operand from, Operand to);
  [[nodiscard]] bool adds_in_place(std::size_t node, std::size_t input) const;
  [[nodiscard]] std::vector<int> prepare_sums(std::size_t node);
  [[nodiscard]] Operand input_gradient(std::size_t node, std::size_t input, int term);
  [[nodiscard]] std::vector<int> parameter_parts(const Node& node, const ops::Traits& traits, PlannedRun& run);

  const Graph* graph_;
  Leaf leaf_;
  std::size_t number_;
  int place_;
  const std::vector<bool>* differentiable_;
  const std::vector<int>* loss_of_;
  const std::vector<std::vector<int>>* packed_;
  UsersLeft* users_;
  StepPlanBuilder* builder_;
  std::vector<int> value_of_;        // the buffer of each value
  std::vector<Operand> statistics_;  // where each value's statistics lie
  std::vector<int> gradient_of_;     // the buffer of each value's gradient, summed up so far
  std::vector<Buffers> nodes_;
};

}  // namespace lockstep::nn
