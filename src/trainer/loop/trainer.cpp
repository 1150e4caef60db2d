// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer/trainer.hpp"

#include <algorithm>

#include "trainer/checkpoint/checkpoint_reading.hpp"
#include "trainer/loop/continuation.hpp"
#include "trainer/loop/evaluator.hpp"
#include "trainer/loop/requests.hpp"
#include "trainer/loop/saver.hpp"
#include "trainer/loop/shard_moves.hpp"
#include "trainer/loop/stragglers.hpp"
#include "trainer/loop/training_run.hpp"

namespace lockstep::trainer {

Trainer::Trainer(ProcessGroup& group, ops::Ops& ops, const nn::Graph& graph, const data::DatasetPair& data,
                 const TrainerOptions& options, Listener* listener, Observer* observer)
    : run_(std::make_unique<TrainingRun>(group, ops, graph, data, options, listener, observer)),
      requests_(std::make_unique<Requests>(group)),
      evaluator_(std::make_unique<Evaluator>(*run_)),
      saver_(std::make_unique<Saver>(*run_, *requests_)),
      continuation_(std::make_unique<Continuation>(*run_, *evaluator_, *saver_)),
      shard_moves_(std::make_unique<ShardMoves>(*run_, *evaluator_)),
      stragglers_(std::make_unique<StragglerReports>(*run_)) {}

Trainer::~Trainer() = default;

void Trainer::stop_on(const std::atomic<int>& request) { requests_->stop_on(request); }
void Trainer::stop_at(Clock::time_point time) { requests_->stop_at(time); }
void Trainer::save_on(const std::atomic<int>& requests) { requests_->save_on(requests); }
void Trainer::save_checkpoints(CheckpointOptions options) { saver_->start(std::move(options)); }
void Trainer::move_shards(const LeafShares& shards) { shard_moves_->move(shards); }
void Trainer::add_metric(std::unique_ptr<Metric> metric) { evaluator_->add_metric(std::move(metric)); }
void Trainer::remember() { continuation_->remember(); }

bool Trainer::is_saved() const { return saver_->is_saved(); }
bool Trainer::stops_early() const { return evaluator_->stops_early(); }
std::vector<observe::MetricValue> Trainer::metrics() const { return evaluator_->metrics(); }
const observe::ClassCounts* Trainer::classes() const { return evaluator_->classes(); }
std::int64_t Trainer::steps_per_epoch() const { return run_->steps_per_epoch(); }
std::int64_t Trainer::total_steps() const { return run_->total_steps(); }
const RunState& Trainer::state() const { return run_->state; }
Replica& Trainer::replica() { return run_->replica; }
const Replica& Trainer::replica() const { return run_->replica; }

std::int64_t Trainer::completed_epochs() const {
  return state().step == steps_per_epoch() ? state().epoch : state().epoch - 1;
}

std::vector<observe::MetricValue> Trainer::evaluate() { return evaluator_->evaluate(state().epoch, nullptr).value(); }

LoadedWeights Trainer::load_weights(const std::filesystem::path& path, WeightsMatch match) {
  return trainer::load_weights(run_->group, path, replica().store(), match);
}

Trainer::Resumed Trainer::resume(const std::string& wish, const std::filesystem::path& folder) {
  return continuation_->resume(wish, folder);
}

RunMemory Trainer::memory() {
  saver_->wait();
  RunMemory memory = continuation_->memory();
  memory.saves_heard = requests_->saves_heard();
  return memory;
}

void Trainer::go_on_from(const RunMemory& own) {
  continuation_->go_on_from(own);
  requests_->set_saves_heard(own.saves_heard);
  if (!saver_->is_on() || state().global_step == 0) return;
  state().is_reported ? saver_->save_after_epoch(evaluator_->last_is_best(), is_at_end()) : saver_->save_after_step();
}

void Trainer::save() {
  saver_->save(false);
  saver_->wait();
}

const RunState& Trainer::run() {
  // So that the group can be closed while the trainer still tells what it has done.
  const std::shared_ptr<void> at_the_end(nullptr, [this](void*) { replica().drop_captured_steps(); });
  evaluator_->check_options();
  RunState& state = run_->state;
  while (state.stopped_by == 0 && !(state.is_reported && (run_->all_steps_done() || stops_early()))) {
    if (state.is_reported && state.step == steps_per_epoch()) begin_next_epoch();
    observe::EpochEvent event = train_epoch();
    saver_->require_finite();
    const bool is_best = state.stopped_by == 0 && evaluate_epoch(event);
    state.is_reported = state.stopped_by == 0;  // a run that resumes catches up on it
    continuation_->note_completion();
    run_->listener.epoch(event);
    saver_->save_after_epoch(is_best, is_at_end());
  }
  saver_->finish();
  return state;
}

bool Trainer::is_at_end() const { return run_->all_steps_done() || stops_early() || state().stopped_by != 0; }

void Trainer::begin_next_epoch() {
  RunState& state = run_->state;
  ++state.epoch;
  state.step = 0;
  state.is_reported = false;
  state.epoch_loss_sum = 0;
  state.epoch_samples = 0;
}

/// Trains to the end of the epoch, or of the run. @return the event of the epoch, without evaluation
observe::EpochEvent Trainer::train_epoch() {
  const RunState& state = run_->state;
  const DataParallel& parallel = replica().data_parallel();
  stragglers_->restart();
  const StragglerReports::Mark before = stragglers_->mark();
  const std::int64_t samples = run_->trained.samples;
  const double exposed = parallel.exposed_seconds();
  const double waited = run_->batches.waited_seconds();
  const Clock::time_point begin = Clock::now();
  window_ = begin_window();
  if (state.step < steps_per_epoch() && state.stopped_by == 0 && !run_->all_steps_done())
    (void)train_steps(total_steps() - state.global_step);
  const double seconds = seconds_since(begin);
  return {.epoch = state.epoch,
          .step = state.global_step,
          .train_loss = state.epoch_loss_sum / static_cast<double>(std::max<std::int64_t>(1, state.epoch_samples)),
          .metrics = metrics(),
          .seconds = seconds,
          .images_per_second = static_cast<double>(run_->trained.samples - samples) / seconds,
          .exposed_communication_seconds = parallel.exposed_seconds() - exposed,
          .data_wait_seconds = run_->batches.waited_seconds() - waited,
          .slow_ranks = stragglers_->slow_ranks_since(before),
          .shards = run_->options.balance ? replica().shards().counts(run_->group.size()) : std::vector<int>{}};
}

/// Evaluates the model if it is due after this epoch or at the end of the run. @return whether it is the best one
bool Trainer::evaluate_epoch(observe::EpochEvent& event) {
  if (!evaluator_->is_due(event.epoch)) return false;
  const Clock::time_point begin = Clock::now();
  const auto evaluation = evaluator_->evaluate(event.epoch, requests_.get());
  if (!evaluation) {
    agree_on_requests();
    return false;
  }
  event.metrics = *evaluation;
  event.evaluation_seconds = seconds_since(begin);
  return evaluator_->record(*evaluation);
}

std::int64_t Trainer::train_steps(std::int64_t most) {
  RunState& state = run_->state;
  const nn::Model& model = replica().model();
  Progress& progress = run_->group.progress();
  if (state.step == steps_per_epoch()) begin_next_epoch();
  if (!run_->has_batches) run_->batches.start_epoch(state.epoch, state.step);
  run_->has_batches = true;
  std::int64_t taken = 0;
  Clock::time_point begin = Clock::now();
  while (taken < most && state.stopped_by == 0) {
    progress.note_task("waiting for a batch", run_->next_step() + 1);
    const data::Batch* batch = run_->batches.next();
    if (batch == nullptr) break;
    progress.note_task("training", run_->next_step() + 1);
    submit(*batch);
    ++taken;
    // A device need not wait for the host: it has the next step already while the results of one are read.
    while (model.in_flight() > (must_catch_up() ? 0 : model.max_in_flight() - 1)) finish_step(begin);
  }
  while (model.in_flight() > 0) finish_step(begin);
  if (state.step == steps_per_epoch()) run_->has_batches = false;
  return taken;
}

void Trainer::submit(const data::Batch& batch) {
  const std::int64_t step = run_->next_step();
  Replica::StepSettings settings = run_->next_settings();
  settings.has_request = requests_->wants_to_stop() != 0 || requests_->wants_to_save() || stragglers_->wants_report();
  try {
    replica().submit(batch, settings, step);
  } catch (const Error& error) {
    throw error.in_step(run_->next_step() + 1);
  }
}

/// Whether all steps have to be finished before another one is submitted.
bool Trainer::must_catch_up() const {
  return state().stopped_by != 0 || saver_->is_due_before(run_->next_step()) ||
         replica().store().statistics().remembers();
}

/// Reads the results of the oldest step in flight.
/// @param begin  when the training time began that is not counted yet; overwritten
void Trainer::finish_step(Clock::time_point& begin) {
  RunState& state = run_->state;
  Replica::Finished finished;
  try {
    finished = replica().finish(state);
  } catch (const Error& error) {
    throw error.in_step(state.global_step + 1);
  }
  run_->note_pending();
  ++state.step;
  ++state.global_step;
  state.is_reported = false;
  state.epoch_loss_sum += state.last_loss * static_cast<double>(finished.samples);
  state.epoch_samples += finished.samples;
  continuation_->note_completion();
  if (finished.has_request) agree_on_requests();
  const double seconds = seconds_since(begin);
  ++window_.steps;
  window_.samples += finished.samples;
  window_.seconds += seconds;
  run_->trained.samples += finished.samples;
  run_->trained.seconds += seconds;
  report_step(finished.extents);
  stragglers_->report_if_due();
  saver_->save_after_step();
  shard_moves_->balance(seconds);
  begin = Clock::now();
}

/// Called on all ranks when they have learned that one of them wants to stop, to save or to report.
void Trainer::agree_on_requests() {
  const Requests::Agreement agreement = requests_->agree(stragglers_->wants_report());
  run_->state.stopped_by = agreement.stopped_by;
  if (agreement.reports) stragglers_->set_due();
}

Trainer::Window Trainer::begin_window() const {
  return {.waited = run_->batches.waited_seconds(), .exposed = replica().data_parallel().exposed_seconds()};
}

/// @param extents  of the step that has just ended
void Trainer::report_step(std::size_t extents) {
  const RunState& state = run_->state;
  const double waited = run_->batches.waited_seconds();
  const double exposed = replica().data_parallel().exposed_seconds();
  run_->listener.progress({.epoch = state.epoch,
                           .step = state.step,
                           .loss = state.last_loss,
                           .images = run_->trained.samples,
                           .seconds = run_->trained.seconds,
                           .data_wait_seconds = waited,
                           .exposed_communication_seconds = exposed});
  if (state.step % run_->options.log_every != 0) return;
  std::optional<std::array<std::int64_t, 2>> img;
  if (const auto& all = replica().extents(); all.size() > 1) {
    const auto& [channels, height, width] = all[extents].front().extent;
    img = std::array<std::int64_t, 2>{height, width};
  }
  run_->listener.step({.epoch = state.epoch,
                       .step = state.global_step,
                       .loss = state.last_loss,
                       .learning_rate = nn::learning_rate(run_->options.schedule, state.global_step - 1, total_steps()),
                       .images_per_second = static_cast<double>(window_.samples) / window_.seconds,
                       .steps = window_.steps,
                       .seconds = window_.seconds,
                       .data_wait_seconds = waited - window_.waited,
                       .exposed_communication_seconds = exposed - window_.exposed,
                       .img = img});
  window_ = begin_window();
}

}  // namespace lockstep::trainer
