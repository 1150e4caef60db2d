// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/model.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/kernel_choices.hpp"
#include "nn/graph/passes.hpp"
#include "nn/run/lanes.hpp"
#include "nn/run/prepared_graph.hpp"
#include "nn/run/runner.hpp"

namespace lockstep::nn {

namespace {

void check_shards(const ModelOptions& options) {
  const Share& own = options.own_shards;
  const int shards = std::max(1, options.step.shards);
  if (own.first >= 0 && own.count >= 1 && own.end() <= shards && options.step.lanes >= 1) return;
  throw Error(ErrorCode::invalid_argument, "shards " + std::to_string(own.first) + " … " + std::to_string(own.end()) +
                                               " of " + std::to_string(shards) + " in " +
                                               std::to_string(options.step.lanes) +
                                               " lanes: give at least one of each");
}

StepShape shape_of(const ModelOptions& options) {
  return {.shards = std::max(1, options.step.shards),
          .own_shards = options.own_shards,
          .micro_batches = options.step.accumulate,
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
  if (options_.step.accumulate < 1) {
    throw Error(ErrorCode::invalid_argument, "a step cannot be cut into " + std::to_string(options_.step.accumulate) +
                                                 " micro-batches; at least 1 is needed");
  }
  if (!(options_.step.clip_norm >= 0) || !(options_.step.ema >= 0 && options_.step.ema < 1)) {
    throw Error(ErrorCode::invalid_argument,
                "gradients cannot be clipped at " + std::to_string(options_.step.clip_norm) +
                    ", or weights averaged with a decay of " + std::to_string(options_.step.ema) +
                    "; use a norm above 0 and a decay in 0 … 1, 1 excluded, or 0 for none");
  }
  if (options_.optimizer) optimizer_.emplace(parameters(), *options_.optimizer);
  check_shards(options_);
  if (options_.step.lanes > 1 && !ops.device().queue().is_host()) {
    throw Error(ErrorCode::unsupported, std::to_string(options_.step.lanes) + " lanes on '" +
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
  lanes_ = std::make_unique<Lanes>(
      static_cast<int>(std::min<std::int64_t>(options_.step.lanes, options_.own_shards.count)), ops_);
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

/// Returns the size of the arena and of the inputs.
Bytes Model::bytes_needed(std::int64_t samples, bool training) const {
  PreparedGraph graph(passed_, *lanes_, dtype(), samples, shape_of(options_), options_.passes);
  training ? graph.training() : graph.evaluation();
  Bytes needed = graph.arena_bytes();
  for (const TensorSpec& spec : graph_.inputs())
    needed.value += max_in_flight() * input_bytes(spec, std::max(samples, input_samples_)).value;
  return needed;
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
  const ops::ComputeDevice& device = ops_.device();
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

void Model::submit(const Feed& feed, const StepScalars& scalars, GradientReducer& reducer) {
  const bool is_over_ranks = options_.synchronized_parts > 0 && options_.step.shards == 0;
  if (is_over_ranks && options_.synchronized_parts != reducer.size()) {
    throw Error(ErrorCode::invalid_argument, "a model whose batch norm is synchronized over " +
                                                 std::to_string(options_.synchronized_parts) +
                                                 " ranks cannot take a step among " + std::to_string(reducer.size()));
  }
  set(feed, scalars);
  Runner runner(*numbers_, *lanes_, reducer, options_.observer);
  const auto submit = [&] { submit_items(feed.samples, runner); };
  const ops::ComputeDevice& device = ops_.device();
  const int slot = slot_of(submitted_);
  if (device.queue().is_host() || !options_.passes.capture || options_.observer != nullptr) {
    submit();
  } else {
    // All ranks have the same global batch, and so capture and launch in the same steps.
    PlacedSteps& steps = prepared(feed.samples, true).training();
    if (steps.will_capture(scalars.samples, slot)) {
      // No operation may be under way while a stream is captured.
      while (!device.is_idle(device.queue())) reducer.progress();
      reducer.progress();
    }
    steps.submit_or_launch(device, scalars.samples, slot, submit);
  }
  slots_[static_cast<std::size_t>(slot)].done->record(device.queue());
  ++submitted_;
}

const StepResult& Model::finish(GradientReducer& reducer) {
  if (in_flight() == 0) throw Error(ErrorCode::invalid_argument, "no step has been submitted that could be finished");
  const auto slot = static_cast<std::size_t>(slot_of(finished_));
  while (!slots_[slot].done->is_done()) reducer.progress();
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
