// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "nn/schedule_builder.hpp"

namespace lockstep::nn {

/// How often a shard's gradients of each parameter are still to be made.
struct UsersLeft {
  std::vector<int> left;  ///< by parameter
  std::vector<int> all;

  [[nodiscard]] bool is_first(int parameter) const {
    return left[static_cast<std::size_t>(parameter)] == all[static_cast<std::size_t>(parameter)];
  }
};

/// What one leaf does at one node, for the schedule of a step.
class LeafScheduler {
 public:
  /// @param number   of the leaf
  /// @param place    where the gradients of its shard are made
  /// @param loss_of  the loss term of each node, or −1
  /// @param users    of its shard
  LeafScheduler(const Graph& graph, const Leaf& leaf, std::size_t number, int place,
                const std::vector<bool>& differentiable, const std::vector<int>& loss_of, UsersLeft& users,
                ScheduleBuilder& builder)
      : graph_(&graph),
        leaf_(leaf),
        number_(number),
        place_(place),
        differentiable_(&differentiable),
        loss_of_(&loss_of),
        users_(&users),
        builder_(&builder),
        value_of_(graph.values().size(), ScheduleBuilder::none),
        gradient_of_(graph.values().size(), ScheduleBuilder::none),
        nodes_(graph.nodes().size()) {}

  [[nodiscard]] const Leaf& leaf() const { return leaf_; }
  [[nodiscard]] const Kernels::OfNode& made(std::size_t node) const { return leaf_.kernels->nodes[node]; }

  /// Of targets alone: what the network computes is not there yet.
  void normalizer(int term);
  /// The run of a node's forward pass, before which its inputs are brought into the formats it wants.
  [[nodiscard]] PlannedRun forward(std::size_t node, ops::Pass pass);

  struct Backward {
    PlannedRun run;
    std::vector<int> terms;  ///< buffers of gradients of inputs that are to be added, or `none`
    std::vector<int> parts;  ///< of parameters, likewise
  };
  /// The run of its backward pass, if a gradient comes to it.
  [[nodiscard]] std::optional<Backward> backward(std::size_t node);
  /// What adds up the gradients that the run has left.
  void add_up(std::size_t node, const Backward& backward);

 private:
  /// Buffers of one node, as indices into the schedule's.
  struct Buffers {
    std::vector<int> converted;  // inputs in the format that the node wants, where it is another
    int saved = ScheduleBuilder::none;
  };

  [[nodiscard]] Operand loss_sums(int term) const {
    return {Operand::Kind::loss_sums, term, static_cast<std::int64_t>(number_)};
  }
  [[nodiscard]] Operand of_input(int input) const { return {Operand::Kind::input, input, leaf_.first}; }
  [[nodiscard]] Operand gradient(int parameter) const { return {Operand::Kind::gradient, parameter, place_}; }
  [[nodiscard]] std::vector<Operand> state(const Node& node) const;
  [[nodiscard]] Operand use_value(int value);
  [[nodiscard]] std::vector<Operand> inputs_of(std::size_t node, std::size_t count);
  [[nodiscard]] int new_buffer(Bytes bytes) { return builder_->new_buffer(bytes, leaf_.lane); }
  [[nodiscard]] int loss_of(std::size_t node) const { return (*loss_of_)[node]; }
  [[nodiscard]] bool leads_back(int value) const { return (*differentiable_)[static_cast<std::size_t>(value)]; }
  [[nodiscard]] ops::Kernel* sum_of(int parameter) const {
    return leaf_.kernels->sum[static_cast<std::size_t>(parameter)].get();
  }
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
  UsersLeft* users_;
  ScheduleBuilder* builder_;
  std::vector<int> value_of_;     // the buffer of each value
  std::vector<int> gradient_of_;  // of each value, as far as it has been added up
  std::vector<Buffers> nodes_;
};

}  // namespace lockstep::nn
