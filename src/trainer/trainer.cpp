// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer/trainer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/leaves.hpp"
#include "lockstep/ops/kernel_choices.hpp"
#include "trainer/balance.hpp"
#include "trainer/checkpoints.hpp"
#include "trainer/resume.hpp"
#include "trainer/run_section.hpp"
#include "trainer/stragglers.hpp"
#include "trainer/trainer_parts.hpp"

namespace lockstep::trainer {

void require(bool holds, const std::string& message, const ProcessGroup& group) {
  if (holds) return;
  throw Error(ErrorCode::invalid_argument, message, {.rank = group.rank().value, .host = group.host()}).on_every_rank();
}

void prepare_shares(Replica& replica, const data::DistributedSampler& sampler) {
  for (const std::int64_t step : {std::int64_t{0}, sampler.steps() - 1})
    replica.prepare({static_cast<std::int64_t>(sampler.indices(step).size())}, true);
}

namespace {

const TrainerOptions& checked(const TrainerOptions& options, const ProcessGroup& group, const data::DatasetPair& data) {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  require(options.epochs >= 1, number(options.epochs) + " epochs: at least 1 is needed", group);
  require(options.steps >= 0, number(options.steps) + " steps: their number cannot be negative", group);
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
  require(options.batch.value <= data.train->size(),
          "a batch of " + number(options.batch.value) + " is more than the data set's " + number(data.train->size()) +
              " training images: give a smaller one, or more images",
          group);
  return options;
}

data::Prefetcher make_batches(const std::shared_ptr<const data::Dataset>& dataset, const ProcessGroup& group,
                              const TrainerOptions& options, const nn::Model& model, bool training,
                              Observer* observer) {
  data::DistributedSampler sampler({.samples = {dataset->size()},
                                    .batch = {std::min(options.batch.value, dataset->size())},
                                    .drop_last = training && options.drop_last,
                                    .rank = group.rank(),
                                    .ranks = group.size(),
                                    .seed = options.seed,
                                    .shuffle = training,
                                    .shards = options.step.shards});
  std::vector<std::string> bytes;
  for (const TensorSpec& input : model.graph().inputs())
    if (input.bytes) bytes.push_back(input.name);
  return {dataset,
          options.precision,
          std::move(sampler),
          {.workers = options.workers,
           .observer = observer,
           .bytes = std::move(bytes),
           .held = model.max_in_flight(),
           .allocate = [&model](Bytes size) { return model.device().allocate_staging(size); }}};
}

}  // namespace

Trainer::Trainer(ProcessGroup& group, ops::Ops& ops, const nn::Graph& graph, const data::DatasetPair& data,
                 const TrainerOptions& options, Listener* listener, Observer* observer)
    : group_(&group),
      data_(data),
      options_(checked(options, group, data)),
      listener_(listener),
      replica_(group, ops, graph, data::tensors_with_bytes(*data.train), options, observer),
      batches_(make_batches(data.train, group, options, replica_.model(), true, observer)),
      test_batches_(make_batches(data.test, group, options, replica_.model(), false, nullptr)),
      balance_(options.balance && group.size() > 1 ? std::make_unique<Balance>() : nullptr) {
  state_.loss_scale = options_.step.loss_scale.initial;
  replica_.start_from(state_);
  for (std::unique_ptr<Metric>& metric : make_metrics(replica_.model().graph(), data.train->tensors()))
    add_metric(std::move(metric));
  try {
    (void)nn::learning_rate(options_.schedule, 0, total_steps());
  } catch (const Error& error) {  // the same on all ranks, as the options are
    require(false, error.message(), group);
  }
  prepare_shares(replica_, batches_.sampler());
  const data::DistributedSampler& tests = test_batches_.sampler();
  for (const std::int64_t step : {std::int64_t{0}, tests.steps() - 1}) {
    for (const Share& part : predicted_parts(tests.step_samples(step).value, group, replica_.shards()))
      replica_.prepare({part.count}, false);
  }
}

Trainer::~Trainer() = default;

std::int64_t Trainer::total_steps() const {
  const std::int64_t in_all_epochs = options_.epochs * steps_per_epoch();
  return options_.steps > 0 ? std::min(options_.steps, in_all_epochs) : in_all_epochs;
}

const RunState& Trainer::run() {
  check_metrics();
  while (state_.stopped_by == 0 && !(state_.is_reported && (all_steps_done() || stops_early()))) {
    if (state_.is_reported && state_.step == steps_per_epoch()) begin_next_epoch();
    observe::EpochEvent event = train_epoch();
    require_finite();
    const bool is_best = state_.stopped_by == 0 && evaluate_epoch(event);
    state_.is_reported = state_.stopped_by == 0;  // a run that resumes catches up on it
    complete();
    if (listener_ != nullptr) listener_->epoch(event);
    if (checkpoints_) save_after_epoch(is_best);
  }
  if (checkpoints_) {
    checkpoints_->finish();
    is_saved_ = checkpoints_->has(state_.global_step);
  }
  return state_;
}

void Trainer::begin_next_epoch() {
  ++state_.epoch;
  state_.step = 0;
  state_.is_reported = false;
  state_.epoch_loss_sum = 0;
  state_.epoch_samples = 0;
}

/// Trains to the end of the epoch, or of the run. @return the event of the epoch, without evaluation
observe::EpochEvent Trainer::train_epoch() {
  const std::int64_t samples_before = run_samples_;
  const std::int64_t step_before = state_.global_step;
  const Times times_before = times();
  stragglers_ = {.before = times_before, .global_step = step_before, .reported = Clock::now()};
  const double exposed = replica_.data_parallel().exposed_seconds();
  const double waited = batches_.waited_seconds();
  const Clock::time_point begin = Clock::now();
  window_seconds_ = 0;
  window_samples_ = 0;
  if (state_.step < steps_per_epoch() && state_.stopped_by == 0 && !all_steps_done())
    (void)train_steps(total_steps() - state_.global_step);
  const double seconds = seconds_since(begin);
  return {.epoch = state_.epoch,
          .train_loss = state_.epoch_loss_sum / static_cast<double>(std::max<std::int64_t>(1, state_.epoch_samples)),
          .metrics = metrics(),
          .seconds = seconds,
          .images_per_second = static_cast<double>(run_samples_ - samples_before) / seconds,
          .exposed_communication_seconds = replica_.data_parallel().exposed_seconds() - exposed,
          .data_wait_seconds = batches_.waited_seconds() - waited,
          .slow_ranks = slow_ranks_since(times_before, state_.global_step - step_before),
          .shards = options_.balance ? replica_.shards().counts(group_->size()) : std::vector<int>{}};
}

std::int64_t Trainer::train_steps(std::int64_t most) {
  if (state_.step == steps_per_epoch()) begin_next_epoch();
  if (!entered_) batches_.start_epoch(state_.epoch, state_.step);
  entered_ = true;
  std::int64_t taken = 0;
  Clock::time_point begin = Clock::now();
  while (taken < most && state_.stopped_by == 0) {
    group_->progress().note_task("waiting for a batch", next_step() + 1);
    const data::Batch* batch = batches_.next();
    if (batch == nullptr) break;
    group_->progress().note_task("training", next_step() + 1);
    submit(*batch);
    ++taken;
    // A device need not wait for the host: it has the next step already while the results of one are read.
    const int most_behind = replica_.model().max_in_flight() - 1;
    while (replica_.model().in_flight() > (must_catch_up() ? 0 : most_behind)) finish_step(begin);
  }
  while (replica_.model().in_flight() > 0) finish_step(begin);
  if (state_.step == steps_per_epoch()) entered_ = false;
  return taken;
}

/// The number of the next step of the run, from 0.
std::int64_t Trainer::next_step() const { return state_.global_step + replica_.model().in_flight(); }

void Trainer::submit(const data::Batch& batch) {
  const double rate = nn::learning_rate(options_.schedule, next_step(), total_steps());
  try {
    replica_.submit(batch, rate, next_step(), wants_to_stop() != 0 || wants_to_save() || wants_straggler_report());
  } catch (const Error& error) {
    throw error.in_step(next_step() + 1);
  }
}

/// Whether all steps have to be finished before another one is submitted.
bool Trainer::must_catch_up() const {
  const std::int64_t steps = checkpoints_ ? checkpoints_->options().steps : 0;
  return state_.stopped_by != 0 || save_is_due_ || (steps > 0 && next_step() % steps == 0);
}

/// Reads the results of the oldest step in flight.
/// @param begin  when the training time began that is not counted yet; overwritten
void Trainer::finish_step(Clock::time_point& begin) {
  Replica::Finished finished;
  try {
    finished = replica_.finish(state_);
  } catch (const Error& error) {
    throw error.in_step(state_.global_step + 1);
  }
  ++state_.step;
  ++state_.global_step;
  state_.is_reported = false;
  state_.epoch_loss_sum += state_.last_loss * static_cast<double>(finished.samples);
  state_.epoch_samples += finished.samples;
  complete();
  if (finished.has_request) agree_on_requests();
  window_samples_ += finished.samples;
  run_samples_ += finished.samples;
  const double seconds = seconds_since(begin);
  window_seconds_ += seconds;
  run_seconds_ += seconds;
  report_step();
  if (stragglers_.is_due) report_stragglers();
  save_after_step();
  if (balance_ && !all_steps_done()) balance(seconds);
  begin = Clock::now();
}

int Trainer::wants_to_stop() const {
  const int request = stop_ == nullptr ? 0 : stop_->load(std::memory_order_relaxed);
  const bool has_limit = stop_time_ != Clock::time_point::max();
  return request == 0 && has_limit && Clock::now() >= stop_time_ ? stopped_by_time : request;
}

bool Trainer::wants_to_save() {
  const int requests = save_requests_ == nullptr ? 0 : save_requests_->load(std::memory_order_relaxed);
  if (requests == saves_heard_) return false;
  if (Clock::now() >= same_save_until_) return true;
  saves_heard_ = requests;
  return false;
}

/// Called on all ranks when they have learned that one of them wants to stop, to save or to report.
void Trainer::agree_on_requests() {
  std::int64_t wishes[] = {wants_to_stop(), wants_to_save() ? 1 : 0, wants_straggler_report() ? 1 : 0};
  group_->control().all_reduce(std::span(wishes), std::span(wishes), ReduceOp::max, Queue::host(), "requests").wait();
  state_.stopped_by = static_cast<int>(wishes[0]);
  stragglers_.is_due = stragglers_.is_due || wishes[2] != 0;
  if (wishes[1] == 0) return;
  save_is_due_ = true;
  if (save_requests_ != nullptr) saves_heard_ = save_requests_->load(std::memory_order_relaxed);
  same_save_until_ = Clock::now() + std::chrono::seconds(1);
}

void Trainer::report_step() {
  if (listener_ != nullptr) {
    listener_->progress({.epoch = state_.epoch,
                         .step = state_.step,
                         .loss = state_.last_loss,
                         .images = run_samples_,
                         .seconds = run_seconds_});
  }
  if (state_.step % options_.log_every != 0) return;
  if (listener_ != nullptr) {
    listener_->step({.epoch = state_.epoch,
                     .step = state_.global_step,
                     .loss = state_.last_loss,
                     .learning_rate = nn::learning_rate(options_.schedule, state_.global_step - 1, total_steps()),
                     .images_per_second = static_cast<double>(window_samples_) / window_seconds_});
  }
  window_seconds_ = 0;
  window_samples_ = 0;
}

}  // namespace lockstep::trainer
