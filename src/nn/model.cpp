// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/model.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ops/kernel_choices.hpp"
#include "nn/fill.hpp"
#include "nn/lanes.hpp"
#include "nn/prepared_graph.hpp"
#include "nn/runner.hpp"

namespace lockstep::nn {
namespace {

void check_memory(const char* what, const Buffer& memory, Count count, DType dtype, const ops::Device& device) {
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
    if (initial[i].spread == 0) {
      fill(tensor, initial[i].value);
    } else {
      fill_uniform(tensor, seed, slot.name, initial[i].value, initial[i].spread);
    }
  }
}

}  // namespace

std::vector<std::string_view> OptimizationPasses::names() { return {"fuse", "recompute", "reuse-memory", "capture"}; }

void OptimizationPasses::leave_out(const std::string& name) {
  if (name == "fuse") {
    fuse = false;
  } else if (name == "recompute") {
    recompute = false;
  } else if (name == "reuse-memory") {
    reuse_memory = false;
  } else if (name == "capture") {
    capture = false;
  } else {
    throw Error(ErrorCode::invalid_argument, unknown("pass", name, names()));
  }
}

Graph after_passes(const Graph& graph, const OptimizationPasses& passes, bool synchronized, const ops::Ops& ops) {
  Graph passed = synchronized ? synchronize_batch_norms(graph) : graph;
  if (passes.fuse) {
    passed = fuse_activations(fuse_additions(pool_before_relu(passed)));
    if (ops.sums_in_convolutions()) passed = sum_in_convolutions(passed);
  }
  return passed;
}

namespace {

void check_shards(const ModelOptions& options) {
  const Share& own = options.own_shards;
  const int shards = std::max(1, options.shards);
  if (own.first >= 0 && own.count >= 1 && own.end() <= shards && options.lanes >= 1) return;
  throw Error(ErrorCode::invalid_argument, "shards " + std::to_string(own.first) + " … " + std::to_string(own.end()) +
                                               " of " + std::to_string(shards) + " in " +
                                               std::to_string(options.lanes) + " lanes: give at least one of each");
}

StepShape shape_of(const ModelOptions& options) {
  return {.shards = std::max(1, options.shards),
          .own_shards = options.own_shards,
          .micro_batches = options.accumulate,
          .parts = std::max(1, options.synchronized_parts)};
}

}  // namespace

Model::Model(Graph graph, ops::Ops& ops, ModelOptions options)
    : graph_(std::move(graph)),
      passed_(after_passes(graph_, options.passes, options.synchronized_parts > 0, ops)),
      ops_(ops),
      options_(std::move(options)) {
  graph_.check();
  if (!ops.supports(dtype())) {
    throw Error(ErrorCode::unsupported, "the " + std::string(ops.name()) + " operators cannot compute in " +
                                            std::string(lockstep::name(dtype())));
  }
  if (options_.accumulate < 1) {
    throw Error(ErrorCode::invalid_argument, "a step cannot be cut into " + std::to_string(options_.accumulate) +
                                                 " micro-batches; at least 1 is needed");
  }
  if (!(options_.clip_norm >= 0) || !(options_.ema >= 0 && options_.ema < 1)) {
    throw Error(ErrorCode::invalid_argument,
                "gradients cannot be clipped at " + std::to_string(options_.clip_norm) +
                    ", or weights averaged with a decay of " + std::to_string(options_.ema) +
                    "; use a norm above 0 and a decay in 0 … 1, 1 excluded, or 0 for none");
  }
  if (options_.optimizer) optimizer_.emplace(parameters(), *options_.optimizer);
  check_shards(options_);
  if (options_.lanes > 1 && !ops.device().queue().is_host()) {
    throw Error(ErrorCode::unsupported, std::to_string(options_.lanes) + " lanes on '" +
                                            std::string(ops.device().name()) +
                                            "': lanes are threads of the host, use 1");
  }
  prepare_for_shards();
  slots_.resize(static_cast<std::size_t>(max_in_flight()));
  for (Slot& slot : slots_) {
    slot.has_inputs = ops.device().new_event();
    slot.done = ops.device().new_event();
  }
}

Model::~Model() = default;

void Model::prepare_for_shards() {
  lanes_ = std::make_unique<Lanes>(static_cast<int>(std::min<std::int64_t>(options_.lanes, options_.own_shards.count)),
                                   ops_);
  numbers_ = std::make_unique<StepNumbers>(ops_.device(), graph_, options_, max_in_flight());
}

void Model::take_shards(const Share& own) {
  require_none_in_flight();
  ModelOptions options = options_;
  options.own_shards = own;
  check_shards(options);
  options_ = std::move(options);
  prepared_.clear();
  bound_ = false;
  prepare_for_shards();
}

void Model::bind(const Memory& memory) {
  require_none_in_flight();
  const Count count = parameters().count();
  const Count updated = memory.owned ? total(*memory.owned) : count;
  check_memory("parameters", memory.parameters, count, dtype(), ops_.device());
  check_memory("gradients", memory.gradients, {gradient_places() * count.value}, dtype(), ops_.device());
  check_memory("state", memory.state, {options_.own_shards.count * state().count().value}, dtype(), ops_.device());
  if (optimizer_) check_optimizer_state(memory.optimizer_state, updated);
  if (options_.ema > 0) check_memory("averages", memory.averages, updated, dtype(), ops_.device());
  if (options_.ema > 0 && memory.owned)
    check_memory("gathered averages", memory.gathered_averages, count, dtype(), ops_.device());
  memory_ = memory;
  bound_ = true;
  for (auto& [samples, prepared] : prepared_) place(*prepared);
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
    const ops::Device& device = ops_.device();
    const Allocation staging = device.allocate_staging(memory.bytes());
    fill_tensors(layout, initial, staging.as(memory.dtype), seed);
    device.copy(memory.data, staging.data(), memory.bytes(), device.queue());
    device.wait(device.queue());  // not for order: memory is freed next, which waits as well
  };
  make(parameters(), graph_.initial_parameters(), memory_.parameters);
  const Count count = state().count();
  for (std::int64_t shard = 0; shard < options_.own_shards.count; ++shard)
    make(state(), graph_.initial_state(), slice(memory_.state, {shard * count.value}, count));
}

PreparedGraph& Model::prepared(std::int64_t samples, bool training) {
  if (samples < 0) {
    throw Error(ErrorCode::invalid_argument, "a step cannot have " + std::to_string(samples) + " samples");
  }
  std::unique_ptr<PreparedGraph>& entry = prepared_[samples];
  if (entry == nullptr) {
    entry = std::make_unique<PreparedGraph>(passed_, *lanes_, dtype(), samples, shape_of(options_), options_.passes);
  } else if (entry->has(training)) {
    return *entry;
  }
  training ? entry->training() : entry->evaluation();
  // Memory that steps use may move.
  ops_.device().wait(ops_.device().queue());  // not for order: memory is freed next, which waits as well
  try {
    if (entry->arena_bytes().value > arena_.bytes().value) {
      arena_ = {};  // frees the old arena before the new one is allocated
      arena_ = ops_.device().allocate(entry->arena_bytes());
      for (auto& [size, other] : prepared_) place(*other);
    }
    if (!ops_.device().queue().is_host()) make_input_memory(samples);
  } catch (...) {
    prepared_.clear();  // what was prepared before may have lost its memory
    throw;
  }
  place(*entry);
  return *entry;
}

Bytes Model::input_bytes(const TensorSpec& spec, std::int64_t samples) const {
  return {samples * spec.elements() * size_of(spec.dtype(dtype()))};
}

/// Returns the size of the arena and of the inputs.
Bytes Model::bytes_needed(std::int64_t samples, bool training) const {
  PreparedGraph graph(passed_, *lanes_, dtype(), samples, shape_of(options_), options_.passes);
  training ? graph.training() : graph.evaluation();
  Bytes needed = graph.arena_bytes();
  for (const TensorSpec& spec : graph_.inputs())
    needed.value += max_in_flight() * input_bytes(spec, std::max(samples, input_samples_)).value;
  return needed;
}

std::int64_t Model::most_samples(std::int64_t samples, bool training) {
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
    const std::int64_t bytes = bytes_needed(guess, training).value;
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

/// Makes memory for the inputs of as many samples on the device.
void Model::make_input_memory(std::int64_t samples) {
  if (samples <= input_samples_) return;
  for (Slot& slot : slots_) slot.inputs.clear();
  input_samples_ = 0;
  for (Slot& slot : slots_)
    for (const TensorSpec& spec : graph_.inputs())
      slot.inputs.push_back({ops_.device().allocate(input_bytes(spec, samples)), {}});
  input_samples_ = samples;
  for (auto& [size, other] : prepared_) place(*other);
}

int Model::gradient_places() const {
  return gradient_additions_of(passed_, shape_of(options_), lanes_->count()).places;
}

void Model::prepare(std::int64_t samples, bool training) { prepared(samples, training); }

void Model::use(const ops::KernelChoices& choices) {
  require_none_in_flight();
  if (choices == ops_.choices()) return;
  const auto take = [this](const ops::KernelChoices& taken) {
    for (int lane = 0; lane < lanes_->count(); ++lane) lanes_->ops(lane).use(taken);
  };
  const ops::KernelChoices before = ops_.choices();
  auto old = std::exchange(prepared_, {});
  try {
    take(choices);
    for (const auto& [samples, graph] : old)
      for (const bool training : {true, false})
        if (graph->has(training)) prepare(samples, training);
  } catch (...) {
    take(before);
    prepared_ = std::move(old);
    for (auto& [samples, graph] : prepared_) place(*graph);  // the arena may have moved
    throw;
  }
}

const ops::KernelChoices& Model::choices() const { return ops_.choices(); }

Bytes Model::activation_bytes(std::int64_t samples, bool training) {
  PreparedGraph& graph = prepared(samples, training);
  return (training ? graph.training() : graph.evaluation()).plan().total;
}

std::vector<OperatorReport> Model::operators(std::int64_t samples) {
  PreparedGraph& graph = prepared(samples, true);
  std::vector<OperatorReport> reports;
  for (const PlannedItem& item : graph.training().planned()) {
    if (const auto* run = std::get_if<PlannedRun>(&item)) reports.push_back(graph.report(*run));
  }
  const std::vector<OperatorReport> updates = graph.training().update_reports();
  reports.insert(reports.end(), updates.begin(), updates.end());
  return reports;
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
                                memory_.optimizer_state, *block.update, {block.trust_norms, parameter_count}, owned);
    for (ops::UpdateStep& update : updates) update.queue = ops_.device().queue();
    if (options_.clip_norm > 0) clipped = optimizer_->updated(summed);
  }
  std::vector<std::vector<const void*>> inputs(slots_.size());
  for (std::size_t slot = 0; slot < slots_.size(); ++slot)
    for (const InputMemory& input : slots_[slot].inputs) inputs[slot].push_back(input.device.data());
  prepared.place({.arena = static_cast<std::byte*>(arena_.data()),
                  .tensors = memory_,
                  .numbers = numbers_.get(),
                  .slots = inputs,
                  .summed = summed,
                  .clipped = clipped,
                  .own_sums = options_.shards == 0 ? 1 : count_tree_nodes(options_.shards, options_.own_shards),
                  .updates = updates,
                  .owned = owned,
                  .ema = options_.ema,
                  .device = &ops_.device()});
}

PlacedSteps& Model::set_inputs(const Feed& feed, bool training, int slot) {
  require_bound();
  require_inputs(feed);
  PreparedGraph& graph = prepared(feed.samples, training);
  PlacedSteps& steps = training ? graph.training() : graph.evaluation();
  if (ops_.device().queue().is_host()) {
    steps.set_inputs(feed.inputs);
  } else {
    copy_inputs(feed, slot);
  }
  return steps;
}

/// Submits copies of the feed to the device's memory, which the step that used the slot before no longer reads.
void Model::copy_inputs(const Feed& feed, int slot) {
  const ops::Device& device = ops_.device();
  auto& [inputs, has_inputs, done] = slots_[static_cast<std::size_t>(slot)];
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto& [memory, staging] = inputs[i];
    const TensorSpec& spec = graph_.inputs()[i];
    const Bytes bytes = input_bytes(spec, feed.samples);
    const void* from = feed.inputs[i];
    if (!feed.stays && bytes.value > 0) {
      if (staging.bytes() < memory.bytes()) staging = device.allocate_staging(memory.bytes());
      from = std::memcpy(staging.data(), from, static_cast<std::size_t>(bytes.value));
    }
    device.copy(memory.data(), from, bytes, device.copy_queue());
  }
  has_inputs->record(device.copy_queue());
  has_inputs->hold_back(device.queue());
}

int Model::max_in_flight() const { return device().queue().is_host() ? 1 : 2; }

void Model::set(const Feed& feed, const StepScalars& scalars) {
  if (in_flight() == max_in_flight()) {
    throw Error(ErrorCode::invalid_argument,
                std::to_string(in_flight()) + " steps have been submitted and not finished: call finish() first");
  }
  const int slot = slot_of(submitted_);
  const std::span<const std::int64_t> first_samples = set_inputs(feed, true, slot).first_samples();
  std::copy(first_samples.begin(), first_samples.end(), numbers_->first_samples(slot).begin());
  numbers_->scalars(slot) = scalars;
}

void Model::set_state(const StepState& state) {
  require_none_in_flight();
  numbers_->set_state(state);
}

void Model::submit_items(std::int64_t samples, ItemQueue& queue) {
  require_bound();
  for (const Item& item : prepared(samples, true).training().items(slot_of(submitted_))) queue.submit(item);
}

void Model::submit(const Feed& feed, const StepScalars& scalars, Exchange& exchange) {
  const bool is_over_ranks = options_.synchronized_parts > 0 && options_.shards == 0;
  if (is_over_ranks && options_.synchronized_parts != exchange.size()) {
    throw Error(ErrorCode::invalid_argument, "a model whose batch norm is synchronized over " +
                                                 std::to_string(options_.synchronized_parts) +
                                                 " ranks cannot take a step among " + std::to_string(exchange.size()));
  }
  set(feed, scalars);
  Runner runner(*numbers_, *lanes_, exchange, options_.observer);
  const auto submit = [&] { submit_items(feed.samples, runner); };
  const ops::Device& device = ops_.device();
  const int slot = slot_of(submitted_);
  if (device.queue().is_host() || !options_.passes.capture || options_.observer != nullptr) {
    submit();
  } else {
    // All ranks have the same global batch, and so capture and launch in the same steps.
    PlacedSteps& steps = prepared(feed.samples, true).training();
    if (steps.will_capture(scalars.samples, slot)) {
      // No operation may be under way while a stream is captured.
      while (!device.is_idle(device.queue())) exchange.progress();
      exchange.progress();
    }
    steps.submit_or_launch(device, scalars.samples, slot, submit);
  }
  slots_[static_cast<std::size_t>(slot)].done->record(device.queue());
  ++submitted_;
}

const StepResult& Model::finish(Exchange& exchange) {
  if (in_flight() == 0) throw Error(ErrorCode::invalid_argument, "no step has been submitted that could be finished");
  const auto slot = static_cast<std::size_t>(slot_of(finished_));
  while (!slots_[slot].done->is_done()) exchange.progress();
  ++finished_;
  return numbers_->result(slot_of(finished_ - 1));
}

std::span<const ops::LossSums> Model::own_loss_sums() const { return numbers_->rank(last_slot()); }
std::span<const double> Model::not_finite_gradients() const { return numbers_->not_finite(last_slot()); }
std::span<const double> Model::not_finite_sums() const { return numbers_->sums_not_finite(last_slot()); }

ops::Fault Model::fault() const {
  const std::span<const ops::Fault> faults = numbers_->faults(last_slot());
  const std::span<const std::int64_t> first_samples = numbers_->first_samples(last_slot());
  for (std::size_t leaf = 0; leaf < faults.size(); ++leaf) {
    if (faults[leaf].code == ops::FaultCode::none) continue;
    ops::Fault fault = faults[leaf];
    fault.sample += first_samples[leaf];
    return fault;
  }
  return {};
}

std::string Model::text_of(const ops::Fault& fault, const std::string& sample) const {
  const std::string name =
      fault.node < 0 ? "" : "'" + passed_.nodes()[static_cast<std::size_t>(fault.node)].name + "': ";
  return name + ops::text_of(fault, sample);
}

Prediction Model::predict(const Feed& feed) {
  require_none_in_flight();
  PlacedSteps& steps = set_inputs(feed, false, 0);
  SingleRank alone(ops_.device());
  Runner runner(*numbers_, *lanes_, alone, options_.observer);
  for (const Item& item : steps.items(0)) runner.run_now(item);
  ops_.device().wait(ops_.device().queue());
  if (const ops::Fault& fault = numbers_->faults(0).front(); fault.code != ops::FaultCode::none)
    throw Error(ErrorCode::invalid_argument, text_of(fault, "sample " + std::to_string(fault.sample)));
  return {.losses = numbers_->first_leaf(0), .outputs = steps.outputs()};
}

void Model::require_none_in_flight() const {
  if (in_flight() == 0) return;
  throw Error(ErrorCode::invalid_argument,
              std::to_string(in_flight()) + " steps are under way: call finish() for each of them first");
}

void Model::require_bound() const {
  if (!bound_) throw Error(ErrorCode::invalid_argument, "the model has no memory yet; call bind() first");
}

void Model::require_inputs(const Feed& feed) const {
  if (feed.inputs.size() == graph_.inputs().size()) return;
  throw Error(ErrorCode::invalid_argument, "model '" + graph_.name() + "' takes " +
                                               std::to_string(graph_.inputs().size()) + " inputs, not " +
                                               std::to_string(feed.inputs.size()));
}

}  // namespace lockstep::nn
