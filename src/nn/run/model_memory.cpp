// SPDX-License-Identifier: Apache-2.0
// The memory of a model: what the caller provides, and what its device needs for activations and inputs.
#include <algorithm>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/model.hpp"
#include "nn/graph/fill.hpp"
#include "nn/run/prepared_graph.hpp"

namespace lockstep::nn {
namespace {

void check_memory(const char* what, const Buffer& memory, Count count, DType dtype, const ops::ComputeDevice& device) {
  if (memory.count != count || memory.dtype != dtype) {
    throw Error(ErrorCode::invalid_argument, "the model needs " + std::to_string(count.value) + " elements of " +
                                                 std::string(name(dtype)) + " for its " + what + ", not " +
                                                 std::to_string(memory.count.value) + " of " +
                                                 std::string(name(memory.dtype)));
  }
  if (count.value > 0 && (memory.kind == MemoryKind::device) == device.queue().is_host()) {
    throw Error(ErrorCode::invalid_argument, std::string("the model's ") + what + " are in memory of kind " +
                                                 std::string(name(memory.kind)) + ", and its operators compute on '" +
                                                 std::string(device.name()) + "': allocate them there");
  }
}

/// Overwrites the tensors of one layout with their initial values.
void fill_tensors(const Layout& layout, std::span<const ops::OwnedTensor> initial, const Buffer& memory,
                  std::uint64_t seed) {
  for (std::size_t i = 0; i < initial.size(); ++i) {
    const TensorSlot& slot = layout.at(static_cast<int>(i));
    const Buffer tensor = slice(memory, slot.offset, slot.count);
    if (initial[i].spread == 0 && initial[i].added.empty()) {
      fill(tensor, initial[i].value);
    } else {
      fill_uniform(tensor, seed, slot.name, initial[i].value, initial[i].spread, initial[i].added);
    }
  }
}

}  // namespace

Count Model::state_of_shard() const { return {state().count().value * (options_.step.ema_statistics ? 2 : 1)}; }

void Model::bind(const Memory& memory) {
  require_none_in_flight();
  const Count count = parameters().count();
  const Count updated = memory.owned ? total(*memory.owned) : count;
  check_memory("parameters", memory.parameters, count, dtype(), ops_.device());
  check_memory("gradients", memory.gradients, {gradient_places() * count.value}, dtype(), ops_.device());
  check_memory("state", memory.state, {options_.own_shards.count * state_of_shard().value}, dtype(), ops_.device());
  if (optimizer_) check_optimizer_state(memory.optimizer_state, updated);
  if (options_.step.ema > 0) check_memory("averages", memory.averages, updated, dtype(), ops_.device());
  if (options_.step.ema > 0 && memory.owned)
    check_memory("gathered averages", memory.gathered_averages, count, dtype(), ops_.device());
  if (options_.step.sum_steps) check_memory("sums of gradients", memory.gradient_sums, updated, dtype(), ops_.device());
  memory_ = memory;
  bound_ = true;
  place_all();
}

void Model::check_optimizer_state(std::span<const Buffer> state, Count updated) const {
  const std::size_t needed = Optimizer::state_names(optimizer_->options().rule).size();
  if (state.size() != needed) {
    throw Error(ErrorCode::invalid_argument, std::string(name(optimizer_->options().rule)) + " has " +
                                                 std::to_string(needed) + " state buffers, not " +
                                                 std::to_string(state.size()));
  }
  for (const Buffer& buffer : state) check_memory("optimizer state", buffer, updated, dtype(), ops_.device());
}

void Model::initialize(std::uint64_t seed) {
  require_bound();
  // Values are made by the host, and copied where the device has its own memory.
  const auto make = [&](const Layout& layout, std::span<const ops::OwnedTensor> initial, const Buffer& memory) {
    if (memory.kind != MemoryKind::device) return fill_tensors(layout, initial, memory, seed);
    const ops::ComputeDevice& device = ops_.device();
    const Allocation staging = device.allocate_staging(memory.bytes());
    fill_tensors(layout, initial, staging.as(memory.dtype), seed);
    device.copy(memory.data, staging.data(), memory.bytes(), device.queue());
    device.wait(device.queue());  // no order needed: freeing memory waits as well
  };
  make(parameters(), graph().initial_parameters(), memory_.parameters);
  const Count count = state().count();
  for (std::int64_t first = 0; first < memory_.state.count.value; first += count.value)
    make(state(), graph().initial_state(), slice(memory_.state, {first}, count));
}

Bytes Model::input_bytes(const TensorSpec& spec, std::int64_t samples) const {
  return {samples * spec.elements() * size_of(spec.dtype(dtype()))};
}

std::int64_t Model::most_samples(std::int64_t samples, bool training, std::size_t extents) {
  const auto memory = ops_.device().memory();
  if (!memory) return samples;
  const MemoryUse own = memory_use();
  const std::int64_t room = memory->free.value + own.activations.value + own.inputs.value;
  // The memory is nearly a linear function of the samples, so interpolation comes close at once.
  std::int64_t fits = 0;
  std::int64_t fits_bytes = 0;
  std::int64_t exceeds = samples + 1;
  std::int64_t guess = samples;
  while (exceeds - fits > 1) {
    const std::int64_t bytes = bytes_needed(guess, training, extents).value;
    (bytes <= room ? fits : exceeds) = guess;
    if (bytes <= room) fits_bytes = bytes;
    const double each = static_cast<double>(bytes) / static_cast<double>(guess);
    const auto more = each > 0 ? static_cast<std::int64_t>(static_cast<double>(room - fits_bytes) / each) : samples;
    guess = std::clamp(fits + more, fits + 1, std::max(fits + 1, exceeds - 1));
  }
  return fits;
}

Model::MemoryUse Model::memory_use() const {
  MemoryUse use{.activations = arena_.bytes(), .inputs = {}};
  for (const Slot& slot : slots_)
    for (const InputMemory& input : slot.inputs) use.inputs.value += input.device.bytes().value;
  return use;
}

/// Returns the memory that the inputs of a slot need for as many samples, and for what was prepared before.
std::vector<Bytes> Model::input_memory(const Graph& graph, std::int64_t samples) const {
  std::vector<Bytes> memory;
  for (const TensorSpec& spec : graph.inputs()) memory.push_back(input_bytes(spec, samples));
  const std::vector<InputMemory>& present = slots_.front().inputs;
  for (std::size_t i = 0; i < present.size(); ++i) memory[i] = std::max(memory[i], present[i].device.bytes());
  return memory;
}

/// Makes memory for the inputs of as many samples on the device.
void Model::make_input_memory(const Graph& graph, std::int64_t samples) {
  const std::vector<Bytes> memory = input_memory(graph, samples);
  const std::vector<InputMemory>& present = slots_.front().inputs;
  const auto suffices = [](Bytes bytes, const InputMemory& input) { return bytes <= input.device.bytes(); };
  if (present.empty() ? samples == 0 : std::ranges::equal(memory, present, suffices)) return;
  for (Slot& slot : slots_) slot.inputs.clear();
  std::vector<std::vector<InputMemory>> of_slots(slots_.size());
  for (std::vector<InputMemory>& inputs : of_slots)
    for (const Bytes bytes : memory) inputs.push_back({ops_.device().allocate(bytes), {}});
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) slots_[slot].inputs = std::move(of_slots[slot]);
  place_all();
}

void Model::place_all() {
  for (GraphPlans& plans : graphs_)
    for (auto& [samples, prepared] : plans.prepared) place(*prepared);
}

void Model::place(PreparedGraph& prepared) {
  if (!bound_) return;
  const LayoutPart whole{{0}, parameters().count()};
  const std::span<const LayoutPart> owned = memory_.owned ? std::span(*memory_.owned) : std::span(&whole, 1);
  const std::span<const LayoutPart> summed = memory_.summed ? std::span(*memory_.summed) : std::span(&whole, 1);
  const auto parameter_count = 2 * parameters().tensors().size();
  std::vector<ops::UpdateStep> updates;
  std::vector<LayoutPart> clipped;
  if (optimizer_) {
    const ops::StepBlock& block = numbers_->block();
    updates = optimizer_->steps(memory_.parameters, slice(memory_.gradients, {0}, parameters().count()),
                                memory_.optimizer_state, *block.update, {block.trust_norms, parameter_count}, owned,
                                memory_.gradient_sums);
    for (ops::UpdateStep& update : updates) update.queue = ops_.device().queue();
    if (options_.step.clip_norm > 0) clipped = optimizer_->updated(summed);
  }
  std::vector<std::vector<const void*>> inputs(slots_.size());
  for (std::size_t slot = 0; slot < slots_.size(); ++slot)
    for (const InputMemory& input : slots_[slot].inputs) inputs[slot].push_back(input.device.data());
  prepared.place(
      {.arena = static_cast<std::byte*>(arena_.data()),
       .tensors = memory_,
       .numbers = numbers_.get(),
       .slots = inputs,
       .summed = summed,
       .clipped = clipped,
       .own_sums = options_.step.shards == 0 ? 1 : count_tree_nodes(options_.step.shards, options_.own_shards),
       .updates = updates,
       .owned = owned,
       .options = options_.step,
       .state_of_shard = state_of_shard(),
       .device = &ops_.device()});
}

}  // namespace lockstep::nn
