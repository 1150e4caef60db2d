// SPDX-License-Identifier: Apache-2.0
#include "nn/schedule.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lockstep::nn {
namespace {

using Kind = Operand::Kind;

constexpr int none = -1;

class Scheduler {
 public:
  Scheduler(const Graph& graph, std::span<const Leaf> leaves, int ranks)
      : graph_(graph),
        leaves_(leaves.begin(), leaves.end()),
        ranks_(ranks),
        differentiable_(differentiable(graph)),
        loss_of_(graph.nodes().size(), none),
        users_left_(graph.parameters().tensors().size()),
        users_(users_left_.size()) {
    for (std::size_t term = 0; term < graph.losses().size(); ++term) {
      loss_of_[static_cast<std::size_t>(graph.losses()[term].node)] = static_cast<int>(term);
    }
    for (const Node& node : graph.nodes()) {
      for (const int parameter : node.parameters)
        users_[static_cast<std::size_t>(parameter)] += static_cast<int>(leaves.size());
    }
    users_left_ = users_;
    for (const Leaf& leaf : leaves_) schedule_.first_samples.push_back(leaf.first);
  }

  Schedule training() {
    weigh();
    for (leaf_ = 0; leaf_ < leaves_.size(); ++leaf_) {
      begin_leaf();
      for (std::size_t n = 0; n < nodes_.size(); ++n) forward(n, ops::Pass::forward);
      for (std::size_t n = nodes_.size(); n-- > 0;) backward(n);
    }
    add(Finish{});
    add(Gate{});
    return std::move(schedule_);
  }

  Schedule evaluation() {
    begin_leaf();
    for (std::size_t n = 0; n < nodes_.size(); ++n) forward(n, ops::Pass::infer);
    return std::move(schedule_);
  }

 private:
  /// Buffers of one node, as indices into the schedule's.
  struct Buffers {
    std::vector<int> converted;  // inputs in the format that the node wants, where it is another
    int saved = none;
  };

  void begin_leaf() {
    value_of_.assign(graph_.values().size(), none);
    gradient_of_.assign(graph_.values().size(), none);
    nodes_.assign(graph_.nodes().size(), {});
  }
  [[nodiscard]] const Kernels& kernels() const { return *leaves_[leaf_].kernels; }
  /// The figures of a loss term, of this leaf.
  [[nodiscard]] Operand figures(int term) const { return {Kind::figures, term, static_cast<std::int64_t>(leaf_)}; }
  /// An input's samples of this leaf.
  [[nodiscard]] Operand of_input(int input) const { return {Kind::input, input, leaves_[leaf_].first}; }

  [[nodiscard]] int now() const { return static_cast<int>(schedule_.items.size()); }
  template <typename Planned>
  void add(Planned item) {
    schedule_.items.emplace_back(std::in_place_type<Planned>, std::move(item));
  }

  int new_buffer(Bytes bytes) {
    schedule_.buffers.push_back({bytes, now(), now()});
    return static_cast<int>(schedule_.buffers.size()) - 1;
  }
  Operand use(int buffer) {
    if (buffer == none) return {};
    schedule_.buffers[static_cast<std::size_t>(buffer)].last = now();
    return {Kind::activation, buffer};
  }
  Operand use_value(int value) {
    const int input = graph_.input_of(value);
    return input >= 0 ? of_input(input) : use(value_of_[static_cast<std::size_t>(value)]);
  }
  static std::vector<Operand> tensors(Kind kind, const std::vector<int>& indices) {
    std::vector<Operand> operands;
    for (const int index : indices) operands.push_back({kind, index});
    return operands;
  }
  [[nodiscard]] const ops::Format& format(int value) const {
    return kernels().formats[static_cast<std::size_t>(value)];
  }
  [[nodiscard]] const Kernels::OfNode& made(std::size_t node) const { return kernels().nodes[node]; }

  void weigh() {
    bool any = false;
    for (leaf_ = 0; leaf_ < leaves_.size(); ++leaf_) {
      for (std::size_t term = 0; term < graph_.losses().size(); ++term) {
        if (graph_.losses()[term].normaliser != Normaliser::weight) continue;
        weigh(static_cast<int>(term));
        any = true;
      }
    }
    if (any) add(SumWeights{});
    add(SetFactors{});
  }

  /// Of targets alone: what the network computes is not there yet.
  void weigh(int term) {
    const auto n = static_cast<std::size_t>(graph_.losses()[static_cast<std::size_t>(term)].node);
    PlannedRun run{.kernel = made(n).kernel.get(),
                   .pass = ops::Pass::weigh,
                   .label = "weigh " + graph_.nodes()[n].name,
                   .node = static_cast<int>(n),
                   .output = figures(term)};
    for (const int value : graph_.nodes()[n].inputs) {
      const int input = graph_.input_of(value);
      run.inputs.push_back(input >= 0 ? of_input(input) : Operand{});
    }
    add(std::move(run));
  }

  void convert(ops::Kernel* kernel, const std::string& label, Operand from, Operand to) {
    add(PlannedRun{.kernel = kernel, .label = label, .inputs = {from}, .output = to});
  }

  void forward(std::size_t n, ops::Pass pass) {
    const Node& node = graph_.nodes()[n];
    Buffers& buffers = nodes_[n];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      buffers.converted.push_back(none);
      ops::Kernel* there = made(n).inputs[i].there.get();
      if (there == nullptr) continue;
      const Operand from = use_value(node.inputs[i]);
      buffers.converted[i] = new_buffer(there->traits().output.bytes);
      convert(there, "reorder for " + node.name, from, use(buffers.converted[i]));
    }
    PlannedRun run{.kernel = made(n).kernel.get(),
                   .pass = pass,
                   .label = "forward " + node.name,
                   .node = static_cast<int>(n),
                   .leaf = leaf_,
                   .inputs = inputs_of(n),
                   .parameters = tensors(Kind::parameter, node.parameters),
                   .state = tensors(Kind::state, node.state)};
    if (node.output < 0) {
      run.output = figures(loss_of_[n]);
    } else {
      int& buffer = value_of_[static_cast<std::size_t>(node.output)];
      buffer = new_buffer(format(node.output).bytes);
      run.output = use(buffer);
    }
    const Bytes saved = made(n).kernel->traits().saved;
    if (pass == ops::Pass::forward && saved.value > 0) run.saved = use(buffers.saved = new_buffer(saved));
    if (pass == ops::Pass::forward)
      exchange(run, ops::Pass::measure, "measure " + node.name, made(n).kernel->traits().forward_part);
    touch(run);
    add(std::move(run));
  }

  /// Before the run, what it has to know of other ranks' parts: measured by `pass` and gathered.
  void exchange(PlannedRun& run, ops::Pass pass, std::string label, std::int64_t count) {
    if (count == 0) return;
    const auto bytes = static_cast<std::int64_t>(sizeof(double)) * count;
    run.part = use(new_buffer({bytes}));
    run.parts = use(new_buffer({bytes * ranks_}));
    PlannedRun first = run;
    first.pass = pass;
    first.label = std::move(label);
    first.parts = {};
    touch(first);
    add(std::move(first));
    add(PlannedGather{run.part, run.parts, count});
    run.parts_count = count * ranks_;
  }

  /// What a run reads or writes has to live until then.
  void touch(const PlannedRun& run) {
    const auto last = [this](const Operand& operand) {
      if (operand.kind == Kind::activation) use(operand.index);
    };
    for (const auto* operands : {&run.inputs, &run.input_gradients, &run.parameter_gradients})
      std::for_each(operands->begin(), operands->end(), last);
    for (const Operand* operand : {&run.output, &run.saved, &run.output_gradient, &run.part, &run.parts})
      last(*operand);
  }

  std::vector<Operand> inputs_of(std::size_t n) {
    std::vector<Operand> operands;
    for (std::size_t i = 0; i < graph_.nodes()[n].inputs.size(); ++i) {
      const int converted = nodes_[n].converted[i];
      operands.push_back(converted == none ? use_value(graph_.nodes()[n].inputs[i]) : use(converted));
    }
    return operands;
  }

  void backward(std::size_t n) {
    const Node& node = graph_.nodes()[n];
    const ops::Traits& traits = made(n).kernel->traits();
    const bool is_loss = node.output < 0;
    const int gradient = is_loss ? none : gradient_of_[static_cast<std::size_t>(node.output)];
    if (is_loss || gradient != none) {
      const std::vector<int> terms = prepare_sums(n);
      PlannedRun run{.kernel = made(n).kernel.get(),
                     .pass = ops::Pass::backward,
                     .label = "backward " + node.name,
                     .node = static_cast<int>(n),
                     .leaf = leaf_,
                     .inputs = traits.backward_reads_inputs ? inputs_of(n) : std::vector<Operand>(node.inputs.size()),
                     .parameters = tensors(Kind::parameter, node.parameters),
                     .saved = use(nodes_[n].saved)};
      if (!is_loss && traits.backward_reads_output) run.output = use_value(node.output);
      run.output_gradient = is_loss ? Operand{Kind::factor, loss_of_[n]} : use(gradient);
      for (std::size_t i = 0; i < terms.size(); ++i) run.input_gradients.push_back(input_gradient(n, i, terms[i]));
      const std::vector<int> parts = parameter_parts(node, traits, run);
      exchange(run, ops::Pass::measure_backward, "measure backward " + node.name, traits.backward_part);
      touch(run);
      add(std::move(run));
      add_up(n, terms);
      add_up_parameters(node, parts);
    }
    std::for_each(node.parameters.rbegin(), node.parameters.rend(), [this](int parameter) {
      if (--users_left_[static_cast<std::size_t>(parameter)] == 0) add(Ready{parameter});
    });
    add(Progress{});
  }

  /// Whether a kernel adds to the gradient of its input where that is summed up.
  [[nodiscard]] bool adds_in_place(std::size_t n, std::size_t input) const {
    return made(n).kernel->traits().input_gradients == ops::Writes::accumulates &&
           made(n).inputs[input].back == nullptr;
  }

  /// Makes zero what the kernel will add to, and to which nobody has added yet.
  /// @return buffers for the terms of sums that it makes apart from them, or `none`
  std::vector<int> prepare_sums(std::size_t n) {
    const Node& node = graph_.nodes()[n];
    const ops::Traits& traits = made(n).kernel->traits();
    const bool accumulates = traits.input_gradients == ops::Writes::accumulates;
    std::vector<int> terms(node.inputs.size(), none);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto value = static_cast<std::size_t>(node.inputs[i]);
      if (!differentiable_[value] || (adds_in_place(n, i) && gradient_of_[value] != none)) continue;
      int& buffer = adds_in_place(n, i) ? gradient_of_[value] : terms[i];
      buffer = new_buffer(traits.inputs[i].bytes);
      if (accumulates) add(PlannedZero{use(buffer), traits.inputs[i].bytes});
    }
    if (traits.parameter_gradients == ops::Writes::accumulates) {
      for (const int parameter : node.parameters) {
        if (is_first_user(parameter)) add(PlannedZero{{Kind::gradient, parameter}, {}});
      }
    }
    return terms;
  }

  Operand input_gradient(std::size_t n, std::size_t input, int term) {
    const auto value = static_cast<std::size_t>(graph_.nodes()[n].inputs[input]);
    if (!differentiable_[value]) return {};
    return use(adds_in_place(n, input) ? gradient_of_[value] : term);
  }

  [[nodiscard]] bool is_first_user(int parameter) const {
    return users_left_[static_cast<std::size_t>(parameter)] == users_[static_cast<std::size_t>(parameter)];
  }

  /// Where the run leaves gradients of parameters. @return the buffers of those that are to be added, or `none`
  std::vector<int> parameter_parts(const Node& node, const ops::Traits& traits, PlannedRun& run) {
    std::vector<int> parts;
    for (const int parameter : node.parameters) {
      parts.push_back(none);
      if (is_first_user(parameter) || traits.parameter_gradients == ops::Writes::accumulates) {
        run.parameter_gradients.push_back({Kind::gradient, parameter});
      } else {
        parts.back() = new_buffer(sum_of(parameter)->traits().output.bytes);
        run.parameter_gradients.push_back(use(parts.back()));
      }
    }
    return parts;
  }

  [[nodiscard]] ops::Kernel* sum_of(int parameter) const {
    return kernels().sum[static_cast<std::size_t>(parameter)].get();
  }

  void add_up(std::size_t n, const std::vector<int>& terms) {
    const Node& node = graph_.nodes()[n];
    for (std::size_t i = 0; i < terms.size(); ++i) {
      if (terms[i] == none) continue;
      const auto value = static_cast<std::size_t>(node.inputs[i]);
      int term = terms[i];
      if (ops::Kernel* back = made(n).inputs[i].back.get(); back != nullptr) {
        const Operand from = use(term);
        term = new_buffer(back->traits().output.bytes);
        convert(back, "reorder the gradient of " + graph_.values()[value].name, from, use(term));
      }
      int& so_far = gradient_of_[value];
      if (so_far == none) {
        so_far = term;
        continue;
      }
      PlannedRun sum{.kernel = kernels().addition[value].get(),
                     .label = "add gradients of " + graph_.values()[value].name,
                     .inputs = {use(so_far), use(term)}};
      so_far = new_buffer(format(static_cast<int>(value)).bytes);
      sum.output = use(so_far);
      add(std::move(sum));
    }
  }

  void add_up_parameters(const Node& node, const std::vector<int>& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] == none) continue;
      const Operand gradient{Kind::gradient, node.parameters[i]};
      add(PlannedRun{.kernel = sum_of(node.parameters[i]),
                     .label = "add gradients of " + graph_.parameters().at(node.parameters[i]).name,
                     .inputs = {gradient, use(parts[i])},
                     .output = gradient});
    }
  }

  const Graph& graph_;
  std::vector<Leaf> leaves_;
  std::size_t leaf_ = 0;  // that is being scheduled
  int ranks_;
  std::vector<bool> differentiable_;
  std::vector<int> value_of_;     // the buffer of each value, of this leaf
  std::vector<int> gradient_of_;  // of each value, as far as it has been added up
  std::vector<Buffers> nodes_;
  std::vector<int> loss_of_;  // the term of each node that is a loss
  std::vector<int> users_left_;
  std::vector<int> users_;  // how many times leaves' nodes use each parameter
  Schedule schedule_;
};

}  // namespace

std::vector<bool> differentiable(const Graph& graph) {
  std::vector<bool> leads_back(graph.values().size());
  for (const Node& node : graph.nodes()) {
    if (node.output < 0) continue;
    leads_back[static_cast<std::size_t>(node.output)] =
        !node.parameters.empty() || std::any_of(node.inputs.begin(), node.inputs.end(),
                                                [&](int value) { return leads_back[static_cast<std::size_t>(value)]; });
  }
  return leads_back;
}

Schedule schedule_training(const Graph& graph, std::span<const Leaf> leaves, int ranks) {
  return Scheduler(graph, leaves, ranks).training();
}

Schedule schedule_evaluation(const Graph& graph, const Kernels& kernels) {
  const Leaf whole{&kernels};
  return Scheduler(graph, std::span(&whole, 1), 1).evaluation();
}

}  // namespace lockstep::nn
