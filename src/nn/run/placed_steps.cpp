// SPDX-License-Identifier: Apache-2.0
#include "nn/run/placed_steps.hpp"

#include <algorithm>

namespace lockstep::nn {
namespace {

using Kind = Operand::Kind;

/// Extends every lifetime over the whole list, so that a program can read all buffers afterwards.
std::vector<Lifetime> throughout(std::vector<Lifetime> buffers, int items) {
  for (Lifetime& buffer : buffers) buffer = {buffer.bytes, 0, items, buffer.lane};
  return buffers;
}

/// Returns the address of a tensor in one of the consecutive copies of a layout.
void* slot_address(const Buffer& copies, const Layout& layout, const Operand& operand) {
  const TensorSlot& slot = layout.at(operand.index);
  return slice(copies, {operand.which * layout.count().value + slot.offset.value}, slot.count).data;
}

}  // namespace

PlacedSteps::PlacedSteps(const Graph& graph, StepPlan plan, const OptimizationPasses& passes, DType dtype,
                         std::int64_t samples)
    : graph_(&graph),
      step_plan_(std::move(plan)),
      dtype_(dtype),
      samples_(samples),
      plan_(plan_memory(passes.reuse_memory
                            ? step_plan_.buffers
                            : throughout(step_plan_.buffers, static_cast<int>(step_plan_.items.size())))) {}

void* PlacedSteps::address(const Operand& operand, const StepMemory& memory) const {
  const auto index = static_cast<std::size_t>(operand.index);
  const Model::Memory& tensors = memory.tensors;
  switch (operand.kind) {
    case Kind::none:
    case Kind::input: return nullptr;  // `feed` sets the address of an input
    case Kind::activation: return memory.arena + plan_.offsets[index].value + operand.which;
    case Kind::parameter: return slot_address(tensors.parameters, graph_->parameters(), operand);
    case Kind::gradient: return slot_address(tensors.gradients, graph_->parameters(), operand);
    case Kind::state: return state_address(operand, memory);
    case Kind::loss_sums:
      return memory.numbers->block().own + static_cast<std::size_t>(operand.which) * graph_->losses().size() + index;
    case Kind::factor: return memory.numbers->block().factors + index;
  }
  return nullptr;
}

void* PlacedSteps::state_address(const Operand& operand, const StepMemory& memory) const {
  const Layout& layout = graph_->state();
  const Count first{operand.which * memory.state_of_shard.value + (memory.reads_averages ? layout.count().value : 0)};
  const TensorSlot& slot = layout.at(operand.index);
  return slice(memory.tensors.state, first + slot.offset, slot.count).data;
}

void PlacedSteps::add(const PlannedPack& pack, const StepMemory& memory) {
  PackParameters item;
  for (const PlannedPack::Copy& copy : pack.copies)
    item.parameters.push_back({copy.kernel, copy.parameter, address(copy.from, memory), address(copy.to, memory)});
  add(Item(std::move(item)));
}

void PlacedSteps::add(const PlannedZero& zero, const StepMemory& memory) {
  Bytes bytes = zero.bytes;
  if (zero.what.kind == Kind::gradient)
    bytes = {graph_->parameters().at(zero.what.index).count.value * size_of(dtype_)};
  add(Zero{address(zero.what, memory), bytes, zero.lane});
}

void PlacedSteps::add(const PlannedGather& gather, const StepMemory& memory) {
  const auto numbers = [&](const Operand& operand, std::int64_t count) {
    return memory.numbers->numbers(static_cast<double*>(address(operand, memory)), count);
  };
  add(GatherOverRanks{numbers(gather.own, gather.own_count), numbers(gather.all, gather.all_count)});
}

void PlacedSteps::add(const PlannedWeights& /*weights*/, const StepMemory& memory) {
  const ops::StepBlock& block = memory.numbers->block();
  add(Compute{ops::StepStage::sum_weights});
  // For each shard only one rank has a nonzero number, so the order in which ranks are added does not matter.
  add(SumOverRanks{memory.numbers->numbers(block.shard_weights, std::int64_t{block.shards()} * block.terms)});
}

/// Adds the check of a part of gradients, whose marks are by parameter.
void PlacedSteps::add_check(const ConstBuffer& gradients, const LayoutPart& part, double* marks) {
  const std::vector<TensorSlot>& tensors = graph_->parameters().tensors();
  const auto ends_behind = [](Count place, const TensorSlot& tensor) { return place < tensor.offset + tensor.count; };
  const auto first = std::upper_bound(tensors.begin(), tensors.end(), part.offset, ends_behind);
  CountNotFinite check{slice(gradients, part.offset, part.count), {}, marks + (first - tensors.begin())};
  for (auto tensor = first; tensor != tensors.end() && tensor->offset < part.offset + part.count; ++tensor)
    check.ends.push_back(std::min(tensor->offset + tensor->count - part.offset, part.count).value);
  if (check.ends.empty()) return;  // padding
  check.values.count = {check.ends.back()};
  add(check);
}

/// Checks each bucket before the last of its gradients, with which its reduction begins.
void PlacedSteps::add(const PlannedReduce& reduce, const StepMemory& memory) {
  const Layout& layout = graph_->parameters();
  const TensorSlot& slot = layout.at(reduce.parameter);
  LayoutPart part{slot.offset, slot.count};
  for (const LayoutPart& bucket : memory.tensors.buckets)
    if (common(bucket, part) == part) part = bucket;
  Count& ready = lists_.back().ready[part.offset.value];
  ready += slot.count;
  Count all;
  for (const TensorSlot& tensor : layout.tensors()) all += common(part, {tensor.offset, tensor.count}).count;
  if (ready == all && !memory.updates.empty()) {
    for (int sum = 0; sum < memory.own_sums; ++sum)
      add_check(slice(memory.tensors.gradients, {sum * layout.count().value}, layout.count()), part,
                memory.numbers->block().not_finite);
  }
  add(ReduceGradient{reduce.parameter});
}

Item PlacedSteps::placed(const PlannedRun& run, const StepMemory& memory) {
  Pointers& pointers = lists_.back().pointers.emplace_back();
  const auto fill = [&](auto& addresses, const std::vector<Operand>& operands) {
    for (const Operand& operand : operands) addresses.push_back(address(operand, memory));
  };
  fill(pointers.inputs, run.inputs);
  fill(pointers.parameters, run.parameters);
  fill(pointers.state, run.state);
  fill(pointers.input_gradients, run.input_gradients);
  fill(pointers.parameter_gradients, run.parameter_gradients);
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    if (run.inputs[i].kind != Kind::input) continue;
    const TensorSpec& spec = graph_->inputs()[static_cast<std::size_t>(run.inputs[i].index)];
    lists_.back().inputs.push_back({&pointers.inputs[i], run.inputs[i].index,
                                    run.inputs[i].which * spec.elements() * size_of(spec.dtype(dtype_))});
  }
  pointers.arguments = {
      .inputs = pointers.inputs,
      .parameters = pointers.parameters,
      .state = pointers.state,
      .output = address(run.output, memory),
      .saved = address(run.saved, memory),
      .workspace = address(run.workspace, memory),
      .rng_key = run.node < 0 ? nullptr : memory.numbers->block().rng_keys + run.leaf,
      .part = static_cast<double*>(address(run.part, memory)),
      .parts = {static_cast<const double*>(address(run.parts, memory)), static_cast<std::size_t>(run.parts_count)},
      .output_gradient = address(run.output_gradient, memory),
      .second_output_gradient = address(run.second_output_gradient, memory),
      .input_gradients = pointers.input_gradients,
      .parameter_gradients = pointers.parameter_gradients,
      .fault = memory.numbers->block().faults + run.leaf,
      .node = run.node,
      .queue = memory.device->queue()};
  return RunKernel{run.kernel, run.pass, &pointers.arguments, &run.label, run.lane};
}

void PlacedSteps::place(const StepMemory& memory) {
  lists_.clear();
  submitted_.clear();
  for (std::size_t slot = 0; slot < memory.slots.size(); ++slot) {
    List& list = lists_.emplace_back();
    add(Upload{static_cast<int>(slot)});
    add(Compute{ops::StepStage::begin});
    for (const PlannedItem& item : step_plan_.items)
      std::visit([&](const auto& planned) { add(planned, memory); }, item);
    if (!memory.slots[slot].empty()) set_inputs(list, memory.slots[slot]);
    if (slot == 0) add_outputs(memory);
    add(Download{static_cast<int>(slot)});
  }
}

void PlacedSteps::submit_or_launch(const ops::ComputeDevice& device, double global_samples, int slot,
                                   const std::function<void()>& submit) {
  if (submitted_.insert(global_samples).second) return submit();
  std::unique_ptr<ops::ExecutableGraph>& graph = lists_[static_cast<std::size_t>(slot)].graphs[global_samples];
  if (graph == nullptr) graph = device.capture(device.queue(), submit);
  graph == nullptr ? submit() : graph->launch(device.queue());
}

/// Completes the reduction, and adds the items that find what the gate needs to know of the sums.
void PlacedSteps::add_reduction(const StepMemory& memory) {
  const ops::StepBlock& block = memory.numbers->block();
  add(Compute{ops::StepStage::collect});
  add(FinishReduction{memory.numbers->numbers(block.sums, block.sums_count())});
  if (memory.updates.empty()) return;
  for (const LayoutPart& part : memory.summed) add_check(memory.tensors.gradients, part, block.found + 1);
  for (const LayoutPart& part : memory.clipped)
    add(AddSquares{slice(memory.tensors.gradients, part.offset, part.count), &block.found[0]});
  if (memory.tensors.summed) add(SumOverRanks{memory.numbers->numbers(block.found, block.found_count())});
}

void PlacedSteps::add(const PlannedUpdate& /*update*/, const StepMemory& memory) {
  add_reduction(memory);
  add(Compute{ops::StepStage::gate});
  if (memory.options.sum_steps) add_sums(memory);
  std::vector<ops::UpdateStep> measured;
  for (const ops::UpdateStep& step : memory.updates)
    if (step.squares != nullptr || step.rule == ops::UpdateRule::lamb) measured.push_back(step);
  if (!measured.empty()) add(MeasureUpdate{std::move(measured)});
  const bool has_trust = std::any_of(memory.updates.begin(), memory.updates.end(),
                                     [](const ops::UpdateStep& step) { return step.squares != nullptr; });
  const ops::StepBlock& block = memory.numbers->block();
  if (has_trust && memory.tensors.owned)
    add(SumOverRanks{memory.numbers->numbers(block.trust_norms, 2 * std::int64_t{block.parameters})});
  if (!memory.updates.empty()) add(Update{{memory.updates.begin(), memory.updates.end()}});
  if (memory.options.ema > 0) add_averages(memory);
  if (memory.tensors.owned) add(GatherParameters{});
}

/// Adds items that average parts of a buffer.
/// @param averages  has the parts only, one after the other
void PlacedSteps::add_averages(const Buffer& averages, const Buffer& values, std::span<const LayoutPart> parts,
                               const ops::AverageScalars& scalars, const StepMemory& memory) {
  std::int64_t before = 0;  // elements of earlier parts
  for (const LayoutPart& part : parts) {
    add(Average{{.averages = slice(averages, {before}, part.count).data,
                 .values = slice(values, part.offset, part.count).data,
                 .count = part.count,
                 .dtype = dtype_,
                 .scalars = &scalars,
                 .queue = memory.device->queue()}});
    before += part.count.value;
  }
}

/// Adds the gradients of the step to the sum over several steps.
void PlacedSteps::add_sums(const StepMemory& memory) {
  const Buffer gradients = slice(memory.tensors.gradients, {0}, graph_->parameters().count());
  add_averages(memory.tensors.gradient_sums, gradients, memory.owned, *memory.numbers->block().sum, memory);
}

/// Adds the averages of weights and, in each shard, of running statistics.
void PlacedSteps::add_averages(const StepMemory& memory) {
  const ops::AverageScalars& scalars = *memory.numbers->block().ema;
  add_averages(memory.tensors.averages, memory.tensors.parameters, memory.owned, scalars, memory);
  const Count count = graph_->state().count();
  if (!memory.options.ema_statistics || count.value == 0) return;
  const LayoutPart whole{{0}, count};
  for (Count first; first < memory.tensors.state.count; first += memory.state_of_shard) {
    const Buffer statistics = slice(memory.tensors.state, first, count);
    add_averages(slice(memory.tensors.state, first + count, count), statistics, {&whole, 1}, scalars, memory);
  }
}

std::vector<OperatorReport> PlacedSteps::update_reports() const {
  std::vector<OperatorReport> reports;
  for (const Item& item : items(0)) {
    const auto* update = std::get_if<Update>(&item);
    if (update == nullptr) continue;
    // An update reads weights, gradients and state, and writes weights and state. Each term costs a product and a sum;
    // SGD has four, and a second moment about doubles their number.
    const ops::UpdateStep& any = update->steps.front();
    std::int64_t count = 0;
    for (const ops::UpdateStep& step : update->steps) count += step.count.value;
    const int state = any.second == nullptr ? 1 : 2;
    reports.push_back({.name = std::string(update_label),
                       .operation = std::string(name(any.rule)),
                       .algorithm = "loops",
                       .bytes = {(3 + 2 * state) * count * size_of(any.dtype)},
                       .flops = 8 * state * count});
  }
  return reports;
}

void PlacedSteps::set_inputs(List& list, std::span<const void* const> inputs) {
  for (const InputPointer& input : list.inputs) {
    const auto* first = static_cast<const std::byte*>(inputs[static_cast<std::size_t>(input.input)]);
    *input.pointer = first == nullptr ? nullptr : first + input.offset;
  }
}

/// Brings the graph's outputs into host memory.
void PlacedSteps::add_outputs(const StepMemory& memory) {
  outputs_.clear();
  output_copies_.clear();
  for (std::size_t i = 0; i < step_plan_.outputs.size(); ++i) {
    const std::int64_t elements = graph_->shape(graph_->outputs()[i].value).count();
    Buffer& output = outputs_.emplace_back(address(step_plan_.outputs[i], memory), Count{samples_ * elements}, dtype_);
    if (memory.device->queue().is_host()) continue;
    output_copies_.push_back(memory.device->allocate_staging(output.bytes()));
    add(CopyOutput{output_copies_.back().data(), output.data, output.bytes()});
    output.data = output_copies_.back().data();
  }
}

}  // namespace lockstep::nn
