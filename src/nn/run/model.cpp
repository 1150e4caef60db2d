// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/model.hpp"

#include <algorithm>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/kernel_choices.hpp"
#include "nn/graph/passes.hpp"
#include "nn/graph/same_model.hpp"
#include "nn/run/prepared_graph.hpp"

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

/// Checks the options that belong to another one.
void check_recipe(const ops::StepOptions& options) {
  if (!(options.ema_ramp >= 0) || (options.ema == 0 && (options.ema_ramp > 0 || options.ema_statistics))) {
    throw Error(ErrorCode::invalid_argument, "a ramp of " + std::to_string(options.ema_ramp) +
                                                 " updates, or an average of running statistics, without EMA weights: "
                                                 "give a decay for them, and a ramp of at least 0");
  }
  if (options.sum_steps && options.clip_norm > 0) {
    throw Error(ErrorCode::unsupported, "gradients of single steps cannot be clipped at " +
                                            std::to_string(options.clip_norm) +
                                            " before they are added up over several steps: leave one of the two out");
  }
}

StepShape shape_of(const ModelOptions& options) {
  return {.shards = std::max(1, options.step.shards),
          .own_shards = options.own_shards,
          .micro_batches = options.step.accumulate,
          .parts = std::max(1, options.synchronized_parts)};
}

}  // namespace

Model::Model(Graph graph, ops::Ops& ops, ModelOptions options) : ops_(ops), options_(std::move(options)) {
  append(std::move(graph));
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
  check_recipe(options_.step);
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

void Model::append(Graph graph) {
  graph.check();
  Graph passed = after_passes(graph, options_.passes, options_.synchronized_parts > 0, ops_);
  graphs_.push_back({.graph = std::move(graph), .passed = std::move(passed)});
}

std::size_t Model::add_extents(Graph graph) {
  require_same_model(this->graph(), graph);
  append(std::move(graph));
  return graphs_.size() - 1;
}

void Model::prepare_for_shards() {
  lanes_ = std::make_unique<Lanes>(
      static_cast<int>(std::min<std::int64_t>(options_.step.lanes, options_.own_shards.count)), ops_);
  numbers_ = std::make_unique<StepNumbers>(ops_.device(), graph(), options_, max_in_flight());
}

void Model::take_shards(const Share& own) {
  require_none_in_flight();
  ModelOptions options = options_;
  options.own_shards = own;
  check_shards(options);
  options_ = std::move(options);
  drop_plans();
  bound_ = false;
  prepare_for_shards();
}

Model::GraphPlans& Model::plans(std::size_t extents) {
  if (extents < graphs_.size()) return graphs_[extents];
  throw Error(ErrorCode::invalid_argument, "the model '" + graph().name() + "' has no graph for extents number " +
                                               std::to_string(extents) + "; call add_extents() first");
}

std::unique_ptr<PreparedGraph> Model::new_plans(const GraphPlans& plans, std::int64_t samples) const {
  return std::make_unique<PreparedGraph>(plans.passed, *lanes_, dtype(), samples, shape_of(options_), options_.passes);
}

bool Model::is_prepared(std::int64_t samples, bool training, std::size_t extents) {
  const GraphPlans& plans = this->plans(extents);
  const auto found = plans.prepared.find(samples);
  return found != plans.prepared.end() && found->second->has(training);
}

PreparedGraph& Model::prepared(std::int64_t samples, bool training, std::size_t extents) {
  if (samples < 0) {
    throw Error(ErrorCode::invalid_argument, "a step cannot have " + std::to_string(samples) + " samples");
  }
  GraphPlans& plans = this->plans(extents);
  plans.last_use = ++uses_;
  if (is_prepared(samples, training, extents)) return *plans.prepared.at(samples);
  if (plans.prepared.empty()) make_room_for_plans();
  std::unique_ptr<PreparedGraph>& entry = plans.prepared[samples];
  if (entry == nullptr) entry = new_plans(plans, samples);
  training ? entry->training(arena_.bytes()) : entry->evaluation();
  // Memory that steps use may move.
  ops_.device().wait(ops_.device().queue());  // no order needed: freeing memory waits as well
  try {
    if (entry->arena_bytes().value > arena_.bytes().value) {
      arena_ = {};  // frees the old arena before the new one is allocated
      arena_ = ops_.device().allocate(entry->arena_bytes());
      place_all();
    }
    if (!ops_.device().queue().is_host()) make_input_memory(plans.graph, samples);
  } catch (...) {
    drop_plans();  // what was prepared before may have lost its memory
    throw;
  }
  place(*entry);
  return *entry;
}

/// Drops the plans of the extents that were not used for the longest time, so that there is room for those of others.
void Model::make_room_for_plans() {
  const auto has_plans = [](const GraphPlans& plans) { return !plans.prepared.empty(); };
  while (static_cast<std::size_t>(std::ranges::count_if(graphs_, has_plans)) >= most_plans_) {
    ops_.device().wait(ops_.device().queue());  // a step in flight may use them
    const auto order = [&](const GraphPlans& plans) { return has_plans(plans) ? plans.last_use : uses_ + 1; };
    std::ranges::min_element(graphs_, {}, order)->prepared.clear();
  }
}

void Model::drop_plans() {
  for (GraphPlans& plans : graphs_) plans.prepared.clear();
}

/// Returns the size of the arena and of the inputs.
Bytes Model::bytes_needed(std::int64_t samples, bool training, std::size_t extents) {
  const GraphPlans& plans = this->plans(extents);
  const std::unique_ptr<PreparedGraph> graph = new_plans(plans, samples);
  training ? graph->training() : graph->evaluation();
  Bytes needed = graph->arena_bytes();
  for (const Bytes bytes : input_memory(plans.graph, samples)) needed.value += max_in_flight() * bytes.value;
  return needed;
}

int Model::gradient_places() const {
  return gradient_additions_of(graphs_.front().passed, shape_of(options_), lanes_->count()).places;
}

void Model::drop_captured_steps() {
  for (GraphPlans& plans : graphs_)
    for (auto& [samples, prepared] : plans.prepared) prepared->drop_graphs();
}

void Model::prepare(std::int64_t samples, bool training, std::size_t extents) { prepared(samples, training, extents); }

void Model::use(const ops::KernelChoices& choices) {
  require_none_in_flight();
  if (choices == ops_.choices()) return;
  const auto take = [this](const ops::KernelChoices& taken) {
    for (int lane = 0; lane < lanes_->count(); ++lane) lanes_->ops(lane).use(taken);
  };
  const ops::KernelChoices before = ops_.choices();
  std::deque<decltype(GraphPlans::prepared)> old;
  for (GraphPlans& plans : graphs_) old.push_back(std::exchange(plans.prepared, {}));
  try {
    take(choices);
    for (std::size_t extents = 0; extents < old.size(); ++extents)
      for (const auto& [samples, graph] : old[extents])
        for (const bool training : {true, false})
          if (graph->has(training)) prepare(samples, training, extents);
  } catch (...) {
    take(before);
    for (std::size_t extents = 0; extents < old.size(); ++extents) graphs_[extents].prepared = std::move(old[extents]);
    place_all();  // the arena may have moved
    throw;
  }
}

const ops::KernelChoices& Model::choices() const { return ops_.choices(); }

Bytes Model::activation_bytes(std::int64_t samples, bool training) {
  PreparedGraph& graph = prepared(samples, training, 0);
  return (training ? graph.training() : graph.evaluation()).plan().total;
}

std::vector<OperatorReport> Model::operators(std::int64_t samples) {
  PreparedGraph& graph = prepared(samples, true, 0);
  std::vector<OperatorReport> reports;
  for (const PlannedItem& item : graph.training().planned()) {
    if (const auto* run = std::get_if<PlannedRun>(&item)) reports.push_back(graph.report(*run));
  }
  const std::vector<OperatorReport> updates = graph.training().update_reports();
  reports.insert(reports.end(), updates.begin(), updates.end());
  return reports;
}

void Model::require_bound() const {
  if (!bound_) throw Error(ErrorCode::invalid_argument, "the model has no memory yet; call bind() first");
}

void Model::require_inputs(const Feed& feed) const {
  if (feed.inputs.size() == graph().inputs().size()) return;
  throw Error(ErrorCode::invalid_argument, "model '" + graph().name() + "' takes " +
                                               std::to_string(graph().inputs().size()) + " inputs, not " +
                                               std::to_string(feed.inputs.size()));
}

}  // namespace lockstep::nn
