// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/model.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "nn/fill.hpp"
#include "nn/lanes.hpp"
#include "nn/prepared_graph.hpp"
#include "nn/runner.hpp"
#include "ops/kernel_choices.hpp"

namespace lockstep::nn {
namespace {

void check_memory(const char* what, const Buffer& memory, Count count, DType dtype) {
  if (memory.count != count || memory.dtype != dtype) {
    throw Error(ErrorCode::invalid_argument, "the model needs " + std::to_string(count.value) + " elements of " +
                                                 std::string(name(dtype)) + " for its " + what + ", not " +
                                                 std::to_string(memory.count.value) + " of " +
                                                 std::string(name(memory.dtype)));
  }
  if (memory.kind == MemoryKind::device) {
    throw Error(ErrorCode::unsupported, std::string("the model's ") + what + " must be in host reach");
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

std::vector<std::string_view> Passes::names() { return {"fuse", "recompute", "reuse-memory"}; }

void Passes::leave_out(const std::string& name) {
  if (name == "fuse") {
    fuse = false;
  } else if (name == "recompute") {
    recompute = false;
  } else if (name == "reuse-memory") {
    reuse_memory = false;
  } else {
    throw Error(ErrorCode::invalid_argument, unknown("pass", name, names()));
  }
}

Graph after_passes(const Graph& graph, const Passes& passes, bool synchronized) {
  const Graph whole = synchronized ? synchronize_batch_norms(graph) : graph;
  return passes.fuse ? fuse_activations(fuse_additions(pool_before_relu(whole))) : whole;
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
      passed_(after_passes(graph_, options.passes, options.synchronized_parts > 0)),
      ops_(ops),
      options_(std::move(options)),
      numbers_(std::make_unique<StepNumbers>()) {
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
  numbers_->clip_norm = options_.clip_norm;
  if (options_.optimizer) {
    optimizer_.emplace(parameters(), *options_.optimizer);
    numbers_->momentum = options_.optimizer->momentum;
    numbers_->beta2 = options_.optimizer->beta2;
    numbers_->trust_norms.resize(2 * parameters().tensors().size());
  }
  check_shards(options_);
  lanes_ = std::make_unique<Lanes>(static_cast<int>(std::min<std::int64_t>(options_.lanes, options_.own_shards.count)),
                                   ops_);
  const std::size_t terms = graph_.losses().size();
  const auto shards = static_cast<std::size_t>(std::max(1, options_.shards));
  const auto leaves = static_cast<std::size_t>(options_.own_shards.count * options_.accumulate);
  numbers_->own_shards = options_.own_shards;
  numbers_->own.resize(terms * leaves);
  numbers_->rng_keys.resize(leaves);
  numbers_->rank.resize(terms);
  numbers_->shards.resize(terms * shards);
  numbers_->shard_weights.resize(terms * shards);
  numbers_->total.resize(terms);
  numbers_->weights.resize(terms);
  numbers_->factors.resize(terms);
}

Model::~Model() = default;

void Model::bind(const Memory& memory) {
  const Count count = parameters().count();
  const Count updated = memory.owned ? total(*memory.owned) : count;
  check_memory("parameters", memory.parameters, count, dtype());
  check_memory("gradients", memory.gradients, {gradient_places() * count.value}, dtype());
  check_memory("state", memory.state, {options_.own_shards.count * state().count().value}, dtype());
  if (optimizer_) check_optimizer_state(memory.optimizer_state, updated);
  if (options_.ema > 0) check_memory("averages", memory.averages, updated, dtype());
  if (options_.ema > 0 && memory.owned) check_memory("gathered averages", memory.gathered_averages, count, dtype());
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
  for (const Buffer& buffer : state) check_memory("optimizer state", buffer, updated, dtype());
}

void Model::initialize(std::uint64_t seed) {
  require_bound();
  fill_tensors(parameters(), graph_.initial_parameters(), memory_.parameters, seed);
  const Count count = state().count();
  for (std::int64_t shard = 0; shard < options_.own_shards.count; ++shard)
    fill_tensors(state(), graph_.initial_state(), slice(memory_.state, {shard * count.value}, count), seed);
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
  if (entry->arena_bytes().value > arena_.bytes().value) {
    arena_ = {};  // frees the old arena before the new one is allocated
    arena_ = allocate_host(entry->arena_bytes());
    for (auto& [size, other] : prepared_) place(*other);
  }
  place(*entry);
  return *entry;
}

int Model::gradient_places() const {
  return gradient_additions_of(passed_, shape_of(options_), lanes_->count()).places;
}

void Model::prepare(std::int64_t samples, bool training) { prepared(samples, training); }

void Model::use(const ops::KernelChoices& choices) {
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
  std::vector<ops::UpdateStep> updates;
  std::vector<ConstBuffer> clipped;
  if (optimizer_) {
    const Buffer sums = slice(memory_.gradients, {0}, parameters().count());
    updates = optimizer_->steps(memory_.parameters, sums, memory_.optimizer_state, numbers_->update,
                                numbers_->trust_norms, owned);
    if (options_.clip_norm > 0)
      for (const LayoutPart& part : optimizer_->updated(summed))
        clipped.emplace_back(slice(sums, part.offset, part.count));
  }
  prepared.place({.arena = static_cast<std::byte*>(arena_.data()),
                  .tensors = memory_,
                  .numbers = numbers_.get(),
                  .clipped = clipped,
                  .updates = updates,
                  .owned = owned,
                  .ema = options_.ema});
}

void Model::submit_step(const Feed& feed, ItemQueue& queue) {
  require_bound();
  require_inputs(feed);
  PlacedSteps& steps = prepared(feed.samples, true).training();
  steps.feed(feed.inputs);
  for (const Item& item : steps.items()) queue.submit(item);
}

const StepResult& Model::train(const Feed& feed, const StepScalars& scalars, Peers& peers) {
  const bool is_over_ranks = options_.synchronized_parts > 0 && options_.shards == 0;
  if (is_over_ranks && options_.synchronized_parts != peers.size()) {
    throw Error(ErrorCode::invalid_argument, "a model whose batch norm is synchronized over " +
                                                 std::to_string(options_.synchronized_parts) +
                                                 " ranks cannot take a step among " + std::to_string(peers.size()));
  }
  numbers_->scalars = scalars;
  Runner runner(graph_, *numbers_, *lanes_, peers, options_.observer);
  submit_step(feed, runner);
  return numbers_->result;
}

std::span<const ops::LossSums> Model::own_loss_sums() const { return numbers_->rank; }

Prediction Model::predict(const Feed& feed) {
  require_bound();
  require_inputs(feed);
  PlacedSteps& steps = prepared(feed.samples, false).evaluation();
  steps.feed(feed.inputs);
  NoPeers alone;
  Runner runner(graph_, *numbers_, *lanes_, alone, options_.observer);
  for (const Item& item : steps.items()) runner.run_now(item);
  return {.losses = std::span(numbers_->own).first(graph_.losses().size()), .outputs = steps.outputs()};
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
