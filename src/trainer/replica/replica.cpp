// SPDX-License-Identifier: Apache-2.0
#include "trainer/replica/replica.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/hash.hpp"
#include "ddp/rank_zero.hpp"

namespace lockstep::trainer {
namespace {

LeafShares checked_shards(const ProcessGroup& group, const TrainerOptions& options) {
  if (options.step.shards == 0) return {};
  if (options.step.shards < group.size() || options.step.lanes < 1) {
    throw Error(ErrorCode::invalid_argument,
                std::to_string(options.step.shards) + " shards on " + std::to_string(group.size()) + " ranks of " +
                    std::to_string(options.step.lanes) +
                    " lanes: each rank needs a shard and a lane, so use no more ranks than shards");
  }
  return options.step.shards;
}

/// Returns this rank's shards, or without shards its samples as one.
Share own_shards(const ProcessGroup& group, const LeafShares& shards) {
  return shards.total() == 0 ? Share{0, 1} : shards.of(group.rank().value, group.size());
}

/// Checks that all ranks use the same kernel choices. Shards give the same bits only on the same kind of processor,
/// too.
void require_equal_arithmetic(ProcessGroup& group, const ops::Ops& ops, bool shards) {
  const std::string arithmetic = shards                  ? ops.arithmetic()
                                 : ops.choices().empty() ? "no kernel choices"
                                                         : "kernel choices " + ops.choices().hash();
  Fnv1a hash;
  hash.add(arithmetic);
  std::vector<int> others = ranks_unlike_zero(group.control(), hash.value(), "arithmetic");
  if (others.empty()) return;
  const std::string of_zero = text_of_rank(group, arithmetic);
  const std::string of_other = text_of_rank(group, arithmetic, {others.front()});
  const std::string message = "ranks use different kernels: rank 0 " + of_zero + ", rank " +
                              std::to_string(others.front()) + ' ' + of_other +
                              (shards ? ". Shards need equal ones: use nodes of one kind, or no shards"
                                      : ". Give rank 0's kernel choices to all ranks");
  throw_on_every_rank(group,
                      Error(ErrorCode::mismatch, message, {.operation = "arithmetic", .peers = std::move(others)}));
}

void check_loss_scale(const ops::LossScaleOptions& options) {
  if (!(options.initial >= 0) || !std::isfinite(options.initial)) {
    throw Error(ErrorCode::invalid_argument,
                "a loss cannot be scaled by " + std::to_string(options.initial) + "; use 0 for no scale");
  }
  if (options.interval < 1) {
    throw Error(ErrorCode::invalid_argument,
                "a loss scale cannot grow every " + std::to_string(options.interval) + " steps; at least 1 is needed");
  }
}

nn::ModelOptions model_options(const ProcessGroup& group, const nn::Graph& graph, const TrainerOptions& options,
                               Observer* observer) {
  const nn::Optimizer checked(graph.parameters(), options.optimizer);
  return {.dtype = options.precision,
          .optimizer = checked.options(),
          .step = options.step,
          .own_shards = own_shards(group, options.step.shards),
          .synchronized_parts = !options.sync_batch_norm  ? 0
                                : options.step.shards > 0 ? options.step.shards
                                                          : group.size(),
          .passes = options.passes,
          .observer = observer};
}

/// Aborts the group because the device has failed, so that collective operations on the device end. Memory that they
/// use could not be freed otherwise.
void abort_for(ProcessGroup& group, const ops::ComputeDevice& device, const Error& why) {
  constexpr std::chrono::seconds most{5};  // a device that has failed may never end its work
  group.abort(why.message());
  try {
    for (const Clock::time_point end = Clock::now() + most; Clock::now() < end && !device.is_idle(device.queue());)
      group.progress().poll();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the error under way says more
  }
}

/// Uses the device, and aborts the group if that fails.
template <typename Use>
auto or_abort(ProcessGroup& group, const ops::ComputeDevice& device, const Use& use) {
  try {
    return use();
  } catch (const Error& error) {
    const bool is_misuse = error.code() == ErrorCode::invalid_argument;  // nothing was submitted
    if (!is_misuse && !device.queue().is_host()) abort_for(group, device, error);
    throw;
  }
}

std::string extents_of(const TensorSpec& spec) {
  const auto& [channels, height, width] = spec.extent;
  return std::to_string(channels) + "×" + std::to_string(height) + "×" + std::to_string(width) +
         (spec.content == Content::real ? " real numbers" : " integers");
}

}  // namespace

BatchInputs::BatchInputs(const nn::Graph& graph, const std::vector<TensorSpec>& tensors) {
  for (TensorSpec input : graph.inputs()) {
    const auto found = std::ranges::find(tensors, input.name, &TensorSpec::name);
    if (found != tensors.end()) input.bytes = found->bytes;
    if (found == tensors.end() || *found != input) {
      throw Error(ErrorCode::invalid_argument, "model '" + graph.name() + "' takes '" + input.name + "' of " +
                                                   extents_of(input) + ", and the data set has " +
                                                   (found == tensors.end() ? "none" : extents_of(*found)));
    }
    tensors_.push_back(static_cast<std::size_t>(found - tensors.begin()));
  }
  inputs_.resize(tensors_.size());
}

nn::Graph BatchInputs::with_bytes(nn::Graph graph, const ops::Ops& ops, const std::vector<TensorSpec>& tensors) const {
  for (std::size_t i = 0; i < tensors_.size() && ops.converts_bytes(); ++i)
    if (const auto& numbers = tensors[tensors_[i]].bytes) graph.take_bytes(i, *numbers);
  return graph;
}

nn::Feed BatchInputs::feed(const data::Batch& batch) {
  bool stays = true;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Buffer& tensor = batch.tensors[tensors_[i]];
    inputs_[i] = tensor.data;
    stays = stays && tensor.kind == MemoryKind::pinned;
  }
  return {.samples = batch.samples.value, .inputs = inputs_, .extents = batch.extents, .stays = stays};
}

Replica::Replica(ProcessGroup& group, ops::Ops& ops, const nn::Graph& graph, data::PairExtents extents,
                 const TrainerOptions& options, Observer* observer)
    : group_(&group),
      shards_(on_every_rank(group, [&] { return checked_shards(group, options); })),
      extents_(std::move(extents)),
      inputs_(on_every_rank(group, [&] { return BatchInputs(graph, extents_.all.front()); })),
      model_(on_every_rank(group, [&] { return inputs_.with_bytes(graph, ops, extents_.all.front()); }), ops,
             on_every_rank(group, [&] { return model_options(group, graph, options, observer); })),
      data_parallel_(group, model_.parameters(), options.precision,
                     {.bucket = options.bucket,
                      .initial = options.initial,
                      .shard_optimizer = options.zero,
                      .shards = options.step.shards,
                      .places = model_.gradient_places(),
                      .compare_every = options.compare_every,
                      .observer = observer}),
      store_(group, model_, data_parallel_, options),
      exchange_(group, model_, data_parallel_, store_),
      seed_(options.seed),
      submitted_(static_cast<std::size_t>(model_.max_in_flight())) {
  on_every_rank(group, [&] {
    check_loss_scale(options.step.loss_scale);
    add_extents(ops, options);
  });
  require_equal_arithmetic(group, ops, shards_.total() > 0);
  model_.bind(store_.memory());
  model_.initialize(options.seed);
  // Every rank makes the initial values from the same seed, but processors that round differently could make different
  // ones.
  data_parallel_.synchronize();
  store_.start_averages();
}

Replica::Replica(ProcessGroup& group, ops::Ops& ops, const nn::Graph& graph,
                 const std::vector<std::vector<TensorSpec>>& extents, const TrainerOptions& options, Observer* observer)
    : Replica(group, ops, graph, data::PairExtents{.all = extents, .training = extents.size()}, options, observer) {}

/// Makes the graphs for all extents but the first.
void Replica::add_extents(const ops::Ops& ops, const TrainerOptions& options) {
  const std::vector<std::vector<TensorSpec>>& all = extents_.all;
  if (all.size() > 1 && !options.graphs)
    throw Error(ErrorCode::invalid_argument,
                "training steps" + std::string(extents_.training < all.size() ? " and evaluations" : "") + " have " +
                    std::to_string(all.size()) +
                    " different extents, and there is a graph for the first ones only: let TrainerOptions::graphs make "
                    "the others");
  for (std::size_t i = 1; i < all.size(); ++i) {
    nn::Graph graph = options.graphs(all[i]);
    const BatchInputs inputs(graph, all[i]);
    model_.add_extents(inputs.with_bytes(std::move(graph), ops, all[i]));
  }
}

void Replica::prepare(Count samples, bool training, std::size_t extents) {
  try {
    model_.prepare(samples.value, training, extents);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    const std::int64_t most = model_.most_samples(samples.value, training, extents);
    const std::string remedy = most == 0 ? "not one fits: use a smaller model"
                                         : std::to_string(most) + " fit, a batch of " +
                                               std::to_string(most * group_->size()) +
                                               ": use no larger one, more micro-batches (accumulate), or more GPUs";
    throw Error(ErrorCode::out_of_memory,
                error.message() + ". Of the " + std::to_string(samples.value) +
                    " samples that this rank has in a step, " + remedy,
                {.rank = group_->rank().value, .host = group_->host(), .bytes = error.context().bytes});
  }
}

void Replica::move_shards(const LeafShares& shards) {
  on_every_rank(*group_, [&] { shards_.require_replaceable_by(shards, group_->size()); });
  store_.statistics().move_shards(shards);
  shards_ = shards;
  model_.take_shards(own_shards(*group_, shards));
  data_parallel_.move_shards(shards, model_.gradient_places());
  model_.bind(store_.memory());
}

void Replica::start_from(const RunState& run) {
  model_.set_state({.loss_scale = run.loss_scale == 0 ? 1 : run.loss_scale,
                    .scaled_steps = run.scaled_steps,
                    .updates = run.global_step - run.skipped - run.deferred});
}

void Replica::submit(const data::Batch& batch, const StepSettings& settings, std::int64_t global_step) {
  exchange_.begin(global_step + 1, batch.samples);
  or_abort(*group_, model_.device(), [&] {
    model_.submit(inputs_.feed(batch),
                  {.learning_rate = settings.rates.learning_rate,
                   .samples = static_cast<double>(batch.step_samples.value),
                   .rng_key = {seed_, global_step, batch.first},
                   .request = settings.has_request ? 1.0 : 0.0,
                   .bias_learning_rate = settings.rates.bias_learning_rate,
                   .momentum = settings.rates.momentum,
                   .begins_sum = settings.begins_sum ? 1.0 : 0.0,
                   .updates = settings.updates ? 1.0 : 0.0},
                  exchange_);
  });
  std::rotate(submitted_.begin(), submitted_.begin() + 1, submitted_.end());
  Submitted& newest = submitted_.back();
  newest.of_rank = batch.samples;
  newest.of_all_ranks = batch.step_samples;
  newest.extents = batch.extents;
  newest.updates = settings.updates;
  newest.ids.assign(batch.ids.begin(), batch.ids.end());
}

Replica::Finished Replica::finish(RunState& run) {
  exchange_.deadline().restart();
  const nn::StepResult& result = *or_abort(*group_, model_.device(), [&] {
    exchange_.deadline().arrive();
    const nn::StepResult* of_step = &model_.finish(exchange_);
    exchange_.deadline().wait_for_arrivals();
    return of_step;
  });
  const Submitted& samples = *(submitted_.rbegin() + model_.in_flight());
  if (result.state.halted != 0) refuse(result, samples.ids);
  if (run.loss_scale != 0) {
    run.loss_scale = result.state.loss_scale;
    run.scaled_steps = result.state.scaled_steps;
  }
  run.last_loss = result.loss;
  run.skipped += result.finite ? 0 : 1;
  run.deferred += result.finite && !samples.updates ? 1 : 0;
  store_.statistics().count_samples(samples.of_rank);
  // On the host, the statistics were gathered before the update. A device has made the update by now: if a rank dies in
  // this exchange, the run goes on from the copies of the step before.
  if (!model_.device().queue().is_host()) store_.statistics().gather_in_step({});
  return {.samples = samples.of_all_ranks.value, .has_request = result.requests > 0, .extents = samples.extents};
}

/// Explains why a step has halted the run, and finishes the steps after it, which have changed no weights.
void Replica::refuse(const nn::StepResult& result, const std::vector<std::int64_t>& samples) {
  try {
    refuse_step(*group_, model_, result, samples);
  } catch (...) {
    exchange_.deadline().restart();
    while (model_.in_flight() > 0) model_.finish(exchange_);
    model_.set_state({.loss_scale = result.state.loss_scale,
                      .scaled_steps = result.state.scaled_steps,
                      .updates = result.state.updates});
    throw;
  }
}

}  // namespace lockstep::trainer
