// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/training_run.hpp"

#include <algorithm>

#include "ddp/rank_zero.hpp"

namespace lockstep::trainer {

void require(bool holds, const std::string& message, const ProcessGroup& group) {
  if (holds) return;
  throw Error(ErrorCode::invalid_argument, message, {.rank = group.rank().value, .host = group.host()}).on_every_rank();
}

namespace {

nn::AccumulationSchedule accumulation_of(const TrainerOptions& options) {
  return {.nominal_batch = options.nominal_batch,
          .batch = options.batch.value,
          .warmup_steps = options.schedule.warmup_steps};
}

/// Returns the options with what follows from the nominal batch.
TrainerOptions with_nominal_batch(TrainerOptions options) {
  if (options.nominal_batch == 0) return options;
  const std::int64_t steps = accumulation_of(options).most_steps();
  options.step.sum_steps = steps > 1;
  options.optimizer.weight_decay *=
      static_cast<double>(options.batch.value * steps) / static_cast<double>(options.nominal_batch);
  return options;
}

TrainerOptions checked(const TrainerOptions& options, const ProcessGroup& group, const data::DatasetPair& data) {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  require(options.epochs >= 1, number(options.epochs) + " epochs: at least 1 is needed", group);
  require(options.steps >= 0, number(options.steps) + " steps: their number cannot be negative", group);
  require(options.nominal_batch >= 0, "a nominal batch of " + number(options.nominal_batch) + ": it cannot be negative",
          group);
  require(options.log_every >= 1, "a report every " + number(options.log_every) + " steps: at least 1 is needed",
          group);
  require(options.eval_interval >= 0,
          "an evaluation every " + number(options.eval_interval) + " epochs: it cannot be negative", group);
  require(options.batch.value >= group.size(),
          "a batch of " + number(options.batch.value) + " is the total over all ranks and smaller than their number, " +
              number(group.size()) + ": give every rank at least one sample",
          group);
  require(!options.balance || options.step.shards > 0, "balance moves shards, and there are none: set their number",
          group);
  require(options.evaluates_only || options.batch.value <= data.train->size(),
          "a batch of " + number(options.batch.value) + " is more than the data set's " + number(data.train->size()) +
              " training images: give a smaller one, or more images",
          group);
  return with_nominal_batch(options);
}

data::PairExtents extents_of(const ProcessGroup& group, const data::DatasetPair& data) {
  return on_every_rank(group, [&] { return data::extents_of(data); });
}

/// Ignores all events.
Listener no_listener;

/// Returns the largest number of samples that a rank predicts together, if there are no shards. How a kernel rounds a
/// sample may depend on how many others it computes with it, so evaluations are cut into parts at the same places on
/// any number of ranks. They are small, so that they fit where a rank's share of a training step does.
std::int64_t samples_of_part(const TrainerOptions& options) {
  constexpr std::int64_t most = 32;
  return std::min(options.batch.value, most);
}

}  // namespace

data::Prefetcher make_batches(const std::shared_ptr<const data::Dataset>& dataset, const ProcessGroup& group,
                              const TrainerOptions& options, const nn::Model& model, bool training,
                              Observer* observer) {
  const bool in_parts = !training && options.step.shards == 0;
  const std::int64_t part = in_parts ? samples_of_part(options) : 1;
  const std::int64_t batch = in_parts ? part * group.size() : options.batch.value;
  std::vector<std::vector<std::int64_t>> groups;
  if (!training)
    for (data::EvaluationGroup& of : dataset->evaluation_groups()) groups.push_back(std::move(of.samples));
  data::DistributedSampler sampler({.samples = {dataset->size()},
                                    .batch = {groups.empty() ? std::min(batch, dataset->size()) : batch},
                                    .drop_last = training && options.drop_last,
                                    .rank = group.rank(),
                                    .ranks = group.size(),
                                    .seed = options.seed,
                                    .shuffle = training,
                                    .shards = options.step.shards,
                                    .together = {part},
                                    .groups = std::move(groups)});
  std::vector<std::string> bytes;
  for (const TensorSpec& input : model.graph().inputs())
    if (input.bytes) bytes.push_back(input.name);
  return {dataset,
          options.precision,
          std::move(sampler),
          {.workers = options.workers,
           .observer = observer,
           .bytes = std::move(bytes),
           .draws_extents = training,
           .held = model.max_in_flight(),
           .allocate = [&model](Bytes size) { return model.device().allocate_staging(size); }}};
}

TrainingRun::TrainingRun(ProcessGroup& group_in, ops::Ops& ops, const nn::Graph& graph,
                         const data::DatasetPair& data_in, const TrainerOptions& options_in, Listener* listener_in,
                         Observer* observer)
    : group(group_in),
      data(data_in),
      options(checked(options_in, group_in, data_in)),
      listener(listener_in != nullptr ? *listener_in : no_listener),
      replica(group_in, ops, graph, extents_of(group_in, data), options, observer),
      batches(make_batches(data.train, group, options, replica.model(), true, observer)) {
  state.loss_scale = options.step.loss_scale.initial;
  replica.start_from(state);
  on_every_rank(group, [&] { (void)nn::learning_rate(options.schedule, 0, total_steps()); });
  prepare_steps();
}

void TrainingRun::prepare_steps() {
  const data::DistributedSampler& sampler = batches.sampler();
  std::vector<Count> samples;
  for (const std::int64_t step : {std::int64_t{0}, sampler.steps() - 1})
    samples.push_back({static_cast<std::int64_t>(sampler.indices(step).size())});
  replica.prepare_steps(samples);
}

nn::AccumulationSchedule TrainingRun::accumulation() const { return accumulation_of(options); }

Replica::StepSettings TrainingRun::next_settings() const {
  const std::int64_t step = next_step();
  std::int64_t pending = state.pending_steps;
  for (std::int64_t in_flight = state.global_step; in_flight < step; ++in_flight)
    pending = pending_after(pending, in_flight);
  const bool begins_epoch = state.step + replica.model().in_flight() == 0;
  return {.rates = nn::step_rates(options.schedule, options.optimizer.momentum, step, total_steps()),
          .begins_sum = pending == 0 || begins_epoch,
          .updates = pending_after(pending, step) == 0};
}

std::int64_t TrainingRun::total_steps() const {
  const std::int64_t in_all_epochs = options.epochs * steps_per_epoch();
  return options.steps > 0 ? std::min(options.steps, in_all_epochs) : in_all_epochs;
}

}  // namespace lockstep::trainer
