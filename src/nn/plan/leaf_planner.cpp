// SPDX-License-Identifier: Apache-2.0
#include "nn/plan/leaf_planner.hpp"

#include <algorithm>
#include <variant>

namespace lockstep::nn {
namespace {

using OperandKind = Operand::Kind;

constexpr int no_buffer = StepPlanBuilder::none;

std::vector<Operand> tensors(OperandKind kind, const std::vector<int>& indices) {
  std::vector<Operand> operands;
  for (const int index : indices) operands.push_back({kind, index});
  return operands;
}

std::size_t inputs_read_backward(const ops::Traits& traits) {
  if (!traits.backward_reads_inputs) return 0;
  return traits.backward_reads_first_input ? 1 : traits.inputs.size();
}

}  // namespace

std::vector<Operand> LeafPlanner::parameters(std::size_t n) {
  std::vector<Operand> operands = tensors(OperandKind::parameter, graph_->nodes()[n].parameters);
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (const int copy = (*packed_)[n][i]; copy != no_buffer) operands[i] = builder_->use(copy);
  return operands;
}

Operand LeafPlanner::workspace(std::size_t n) {
  const Bytes bytes = made(n).kernel->workspace();
  return bytes.value == 0 ? Operand{} : builder_->use(new_buffer(bytes));
}

std::vector<Operand> LeafPlanner::state(const Node& node) const {
  std::vector<Operand> operands = tensors(OperandKind::state, node.state);
  for (Operand& operand : operands) operand.which = leaf_.shard;
  return operands;
}

Operand LeafPlanner::use_value(int value) {
  const int input = graph_->input_of(value);
  return input >= 0 ? of_input(input) : builder_->use(value_of_[static_cast<std::size_t>(value)]);
}

void LeafPlanner::normalizer(int term) {
  const auto n = static_cast<std::size_t>(graph_->losses()[static_cast<std::size_t>(term)].node);
  PlannedRun run{.kernel = made(n).kernel.get(),
                 .pass = ops::Pass::normalizer,
                 .label = "normalizer " + graph_->nodes()[n].name,
                 .node = static_cast<int>(n),
                 .lane = leaf_.lane,
                 .output = loss_sums(term),
                 .workspace = workspace(n)};
  for (const int value : graph_->nodes()[n].inputs) {
    const int input = graph_->input_of(value);
    run.inputs.push_back(input >= 0 ? of_input(input) : Operand{});
  }
  builder_->add(std::move(run));
}

void LeafPlanner::convert(ops::Kernel* kernel, const std::string& label, Operand from, Operand to) {
  builder_->add(PlannedRun{.kernel = kernel, .label = label, .lane = leaf_.lane, .inputs = {from}, .output = to});
}

PlannedRun LeafPlanner::forward(std::size_t n, ops::Pass pass) {
  const Node& node = graph_->nodes()[n];
  Buffers& buffers = nodes_[n];
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    buffers.converted.push_back(no_buffer);
    ops::Kernel* there = made(n).inputs[i].there.get();
    if (there == nullptr) continue;
    const Operand from = use_value(node.inputs[i]);
    buffers.converted[i] = new_buffer(there->traits().output.bytes);
    convert(there, "reorder for " + node.name, from, builder_->use(buffers.converted[i]));
  }
  PlannedRun run{.kernel = made(n).kernel.get(),
                 .pass = pass,
                 .label = "forward " + node.name,
                 .node = static_cast<int>(n),
                 .leaf = number_,
                 .lane = leaf_.lane,
                 .inputs = inputs_of(n, node.inputs.size()),
                 .parameters = parameters(n),
                 .state = state(node),
                 .workspace = workspace(n)};
  if (node.output < 0) {
    run.output = loss_sums(loss_of(n));
  } else {
    int& buffer = value_of_[static_cast<std::size_t>(node.output)];
    buffer = new_buffer(leaf_.kernels->formats[static_cast<std::size_t>(node.output)].bytes);
    run.output = builder_->use(buffer);
  }
  if (pass != ops::Pass::forward) return run;
  const Bytes saved = made(n).kernel->traits().saved;
  if (saved.value > 0) run.saved = builder_->use(buffers.saved = new_buffer(saved));
  add_statistics(node, made(n).kernel->traits().statistics, run);
  return run;
}

/// Returns the values whose statistics lie next to each other: the inputs of a batch norm of two, or the value alone.
std::vector<int> LeafPlanner::neighbors(int value) const {
  const auto reader_of = [&](int read) {
    return std::ranges::find_if(graph_->nodes(), [&](const Node& node) {
      const auto* norm = std::get_if<BatchNorm>(&node.op);
      return norm != nullptr && norm->normalizes_residual && std::ranges::count(node.inputs, read) > 0;
    });
  };
  const auto reader = reader_of(value);
  if (reader == graph_->nodes().end()) return {value};
  const bool is_alike = std::ranges::all_of(reader->inputs, [&](int input) { return reader_of(input) == reader; });
  return is_alike ? reader->inputs : std::vector{value};
}

/// Lets a run leave its result's statistics, or a batch norm take those of its inputs.
/// @param count  number of doubles that the node's kernel leaves
void LeafPlanner::add_statistics(const Node& node, std::int64_t count, PlannedRun& run) {
  const auto of = [&](int value) -> Operand& { return statistics_[static_cast<std::size_t>(value)]; };
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  if (count > 0) {
    const std::vector<int> values = neighbors(node.output);
    const auto known = std::ranges::find_if(values, [&](int value) { return of(value).kind != OperandKind::none; });
    Operand& place = of(node.output);
    place.kind = OperandKind::activation;
    place.index = known == values.end() ? new_buffer({std::ssize(values) * count * number}) : of(*known).index;
    place.which = (std::ranges::find(values, node.output) - values.begin()) * count * number;
    run.part = place;
  }
  const auto* norm = std::get_if<BatchNorm>(&node.op);
  if (norm == nullptr || of(node.inputs[0]).kind == OperandKind::none) return;
  const int producer = graph_->values()[static_cast<std::size_t>(node.inputs[0])].producer;
  const std::int64_t each = made(static_cast<std::size_t>(producer)).kernel->traits().statistics;
  Operand after = of(node.inputs[0]);
  after.which += each * number;
  if (norm->normalizes_residual && of(node.inputs[1]) != after) return;
  run.parts = of(node.inputs[0]);
  run.parts_count = norm->norms() * each;
}

Operand LeafPlanner::output(std::size_t index) {
  const Kernels::OfOutput& made = leaf_.kernels->outputs[index];
  const Output& output = graph_->outputs()[index];
  if (made.reader >= 0) return builder_->use(nodes_[static_cast<std::size_t>(made.reader)].converted[made.input]);
  const Operand value = use_value(output.value);
  if (made.convert == nullptr) return value;
  const int converted = new_buffer(made.convert->traits().output.bytes);
  convert(made.convert.get(), "reorder " + output.name, value, builder_->use(converted));
  return builder_->use(converted);
}

/// Returns the operands of the first `count` inputs, and empty ones for the other inputs.
std::vector<Operand> LeafPlanner::inputs_of(std::size_t n, std::size_t count) {
  std::vector<Operand> operands(graph_->nodes()[n].inputs.size());
  for (std::size_t i = 0; i < count; ++i) {
    const int converted = nodes_[n].converted[i];
    operands[i] = converted == no_buffer ? use_value(graph_->nodes()[n].inputs[i]) : builder_->use(converted);
  }
  return operands;
}

std::optional<LeafPlanner::Backward> LeafPlanner::backward(std::size_t n) {
  const Node& node = graph_->nodes()[n];
  const ops::Traits& traits = made(n).kernel->traits();
  const bool is_loss = node.output < 0;
  const int of_output = is_loss ? no_buffer : gradient_of_[static_cast<std::size_t>(node.output)];
  if (!is_loss && of_output == no_buffer) return std::nullopt;
  Backward result;
  result.terms = prepare_sums(n);
  PlannedRun& run = result.run;
  run = {.kernel = made(n).kernel.get(),
         .pass = ops::Pass::backward,
         .label = "backward " + node.name,
         .node = static_cast<int>(n),
         .leaf = number_,
         .lane = leaf_.lane,
         .inputs = inputs_of(n, inputs_read_backward(traits)),
         .parameters = parameters(n),
         .saved = builder_->use(nodes_[n].saved),
         .workspace = workspace(n)};
  if (!is_loss && traits.backward_reads_output) run.output = use_value(node.output);
  run.output_gradient = is_loss ? Operand{OperandKind::factor, loss_of(n)} : builder_->use(of_output);
  for (std::size_t i = 0; i < result.terms.size(); ++i)
    run.input_gradients.push_back(input_gradient(n, i, result.terms[i]));
  result.parts = parameter_parts(node, traits, run);
  const auto is_wanted = [](const Operand& operand) { return operand.kind != OperandKind::none; };
  if (traits.separates_gradients && std::ranges::any_of(run.input_gradients, is_wanted)) {
    result.input_run = run;
    result.input_run->label += " inputs";
    result.input_run->inputs = inputs_of(n, 0);
    result.input_run->output = {};
    result.input_run->parameter_gradients.clear();
    std::ranges::fill(run.input_gradients, Operand{});
  }
  return result;
}

/// Returns whether a kernel adds to the buffer in which its input's gradient is summed.
bool LeafPlanner::adds_in_place(std::size_t n, std::size_t input) const {
  return made(n).kernel->traits().input_gradients == ops::Writes::accumulates && made(n).inputs[input].back == nullptr;
}

/// Plans the zeroing of the buffers that the kernel will add to and that hold no sum yet.
/// @return buffers for the terms of sums that the kernel writes separately, or `none`
std::vector<int> LeafPlanner::prepare_sums(std::size_t n) {
  const Node& node = graph_->nodes()[n];
  const ops::Traits& traits = made(n).kernel->traits();
  const bool accumulates = traits.input_gradients == ops::Writes::accumulates;
  std::vector<int> terms(node.inputs.size(), no_buffer);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const auto value = static_cast<std::size_t>(node.inputs[i]);
    if (!leads_back(node.inputs[i]) || (adds_in_place(n, i) && gradient_of_[value] != no_buffer)) continue;
    int& buffer = adds_in_place(n, i) ? gradient_of_[value] : terms[i];
    buffer = new_buffer(traits.inputs[i].bytes);
    if (accumulates) builder_->add(PlannedZero{builder_->use(buffer), traits.inputs[i].bytes, leaf_.lane});
  }
  if (traits.parameter_gradients == ops::Writes::accumulates) {
    for (const int parameter : node.parameters) {
      if (users_->is_first(parameter)) builder_->add(PlannedZero{gradient(parameter), {}, leaf_.lane});
    }
  }
  return terms;
}

Operand LeafPlanner::input_gradient(std::size_t n, std::size_t input, int term) {
  const int value = graph_->nodes()[n].inputs[input];
  if (!leads_back(value)) return {};
  return builder_->use(adds_in_place(n, input) ? gradient_of_[static_cast<std::size_t>(value)] : term);
}

/// Sets where the run writes gradients of parameters. @return the buffers of those that are to be added, or `none`
std::vector<int> LeafPlanner::parameter_parts(const Node& node, const ops::Traits& traits, PlannedRun& run) {
  std::vector<int> parts;
  for (const int parameter : node.parameters) {
    parts.push_back(no_buffer);
    if (users_->is_first(parameter) || traits.parameter_gradients == ops::Writes::accumulates) {
      run.parameter_gradients.push_back(gradient(parameter));
    } else {
      parts.back() = new_buffer(sum_of(parameter)->traits().output.bytes);
      run.parameter_gradients.push_back(builder_->use(parts.back()));
    }
  }
  return parts;
}

void LeafPlanner::add_up_inputs(std::size_t n, Backward& backward) {
  const Node& node = graph_->nodes()[n];
  if (backward.input_run) builder_->add(*std::move(backward.input_run));
  for (std::size_t i = 0; i < backward.terms.size(); ++i) {
    int term = backward.terms[i];
    if (term == no_buffer) continue;
    const auto value = static_cast<std::size_t>(node.inputs[i]);
    if (ops::Kernel* back = made(n).inputs[i].back.get(); back != nullptr) {
      const Operand from = builder_->use(term);
      term = new_buffer(back->traits().output.bytes);
      convert(back, "reorder the gradient of " + graph_->values()[value].name, from, builder_->use(term));
    }
    int& so_far = gradient_of_[value];
    if (so_far == no_buffer) {
      so_far = term;
      continue;
    }
    PlannedRun sum{.kernel = leaf_.kernels->addition[value].get(),
                   .label = "add gradients of " + graph_->values()[value].name,
                   .lane = leaf_.lane,
                   .inputs = {builder_->use(so_far), builder_->use(term)}};
    so_far = new_buffer(leaf_.kernels->formats[value].bytes);
    sum.output = builder_->use(so_far);
    builder_->add(std::move(sum));
  }
}

void LeafPlanner::add_up_parameters(std::size_t n, const Backward& backward) {
  const Node& node = graph_->nodes()[n];
  for (std::size_t i = 0; i < backward.parts.size(); ++i) {
    if (backward.parts[i] == no_buffer) continue;
    const int parameter = node.parameters[i];
    builder_->add(PlannedRun{.kernel = sum_of(parameter),
                             .label = "add gradients of " + graph_->parameters().at(parameter).name,
                             .lane = leaf_.lane,
                             .inputs = {gradient(parameter), builder_->use(backward.parts[i])},
                             .output = gradient(parameter)});
  }
}

}  // namespace lockstep::nn
