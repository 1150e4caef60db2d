// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer/trainer.hpp"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "lockstep/base/error.hpp"
#include "ops/kernel_choices.hpp"
#include "trainer/checkpoints.hpp"
#include "trainer/resume.hpp"
#include "trainer/run_section.hpp"
#include "trainer/weights.hpp"

namespace lockstep::trainer {
namespace {

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void require(bool holds, const std::string& message, const ProcessGroup& group) {
  if (holds) return;
  throw Error(ErrorCode::invalid_argument, message, {.rank = group.rank().value, .host = group.host()}).on_every_rank();
}

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
  require(options.batch.value <= data.train->size(),
          "a batch of " + number(options.batch.value) + " is more than the data set's " + number(data.train->size()) +
              " training images",
          group);
  return options;
}

data::Prefetcher make_batches(const std::shared_ptr<const data::Dataset>& dataset, const ProcessGroup& group,
                              const TrainerOptions& options, bool training, Observer* observer) {
  data::DistributedSampler sampler({.samples = {dataset->size()},
                                    .batch = {std::min(options.batch.value, dataset->size())},
                                    .drop_last = training && options.drop_last,
                                    .rank = group.rank(),
                                    .ranks = group.size(),
                                    .seed = options.seed,
                                    .shuffle = training,
                                    .shards = training ? options.shards : 0});
  return {dataset, options.precision, std::move(sampler), {.workers = options.workers, .observer = observer}};
}

/// Prepares the replica for all numbers of samples that this rank gets in a step.
void prepare_shares(Replica& replica, const data::DistributedSampler& sampler, bool training) {
  for (const std::int64_t step : {std::int64_t{0}, sampler.steps() - 1}) {
    replica.prepare({static_cast<std::int64_t>(sampler.indices(step).size())}, training);
  }
}

}  // namespace

Trainer::Trainer(ProcessGroup& group, ops::Ops& ops, const nn::Graph& graph, const data::DatasetPair& data,
                 const TrainerOptions& options, Listener* listener, Observer* observer)
    : group_(&group),
      data_(data),
      options_(checked(options, group, data)),
      listener_(listener),
      replica_(group, ops, graph, data.train->tensors(), options, observer),
      batches_(make_batches(data.train, group, options, true, observer)),
      test_batches_(make_batches(data.test, group, options, false, nullptr)) {
  state_.loss_scale = options_.loss_scale.initial;
  try {
    (void)nn::learning_rate(options_.schedule, 0, total_steps());
  } catch (const Error& error) {  // the same on all ranks, as the options are
    require(false, error.message(), group);
  }
  prepare_shares(replica_, batches_.sampler(), true);
  prepare_shares(replica_, test_batches_.sampler(), false);
}

Trainer::~Trainer() = default;

std::int64_t Trainer::total_steps() const {
  const std::int64_t in_all_epochs = options_.epochs * steps_per_epoch();
  return options_.steps > 0 ? std::min(options_.steps, in_all_epochs) : in_all_epochs;
}

const RunState& Trainer::run() {
  while (state_.stopped_by == 0 && !(state_.is_reported && all_steps_done())) {
    if (state_.is_reported && state_.step == steps_per_epoch()) begin_next_epoch();
    observe::EpochEvent event = train_epoch();
    const bool is_best = state_.stopped_by == 0 && evaluate_epoch(event);
    state_.is_reported = state_.stopped_by == 0;  // a run that resumes catches up on it
    if (listener_ != nullptr) listener_->epoch(event);
    if (checkpoints_) save_after_epoch(is_best);
  }
  if (checkpoints_) checkpoints_->finish();
  return state_;
}

void Trainer::save_checkpoints(CheckpointOptions options) {
  checkpoints_ = std::make_unique<Checkpoints>(*group_, std::move(options), listener_);
}

/// Saves a checkpoint if one is due after this step. The last step of an epoch waits for the evaluation.
void Trainer::save_after_step() {
  if (!checkpoints_) {
    const bool is_requested = std::exchange(save_is_due_, false);
    if (!is_requested || listener_ == nullptr || group_->rank() != Rank{0}) return;
    return listener_->checkpoint(
        {.epoch = state_.epoch, .step = state_.global_step, .error = "this run saves no checkpoints"});
  }
  checkpoints_->poll();
  const std::int64_t steps = checkpoints_->options().steps;
  const bool is_due = save_is_due_ || (steps > 0 && state_.global_step % steps == 0);
  if (is_due && state_.step < steps_per_epoch() && !all_steps_done() && state_.stopped_by == 0) save(false);
}

void Trainer::save_after_epoch(bool is_best) {
  const CheckpointOptions& options = checkpoints_->options();
  const bool by_epochs = options.epochs > 0 && state_.epoch % options.epochs == 0;
  const bool by_steps = options.steps > 0 && state_.global_step % options.steps == 0;
  if (is_best || by_epochs || by_steps || save_is_due_ || all_steps_done() || state_.stopped_by != 0) save(is_best);
}

void Trainer::save(bool is_best) {
  save_is_due_ = false;
  state::StateFile file;
  for (const Snapshot::Setting& setting : settings()) file.sections["settings"][setting.name] = setting.value;
  file.sections["kernels"]["choices"] = replica_.model().choices().text();
  checkpoints_->save(replica_.store(), state_, std::move(file), is_best);
}

void Trainer::begin_next_epoch() {
  ++state_.epoch;
  state_.step = 0;
  state_.is_reported = false;
  state_.epoch_loss_sum = 0;
  state_.epoch_samples = 0;
}

/// Evaluates the model if it is due after this epoch or at the end of the run.
bool Trainer::evaluate_epoch(observe::EpochEvent& event) {
  if (options_.eval_interval == 0) return false;
  if (event.epoch % options_.eval_interval != 0 && !all_steps_done()) return false;
  const Clock::time_point begin = Clock::now();
  const std::optional<Evaluation> evaluation = evaluate(event.epoch, true);
  if (!evaluation) return false;
  event.val_loss = evaluation->loss;
  event.val_accuracy = evaluation->accuracy;
  event.evaluation_seconds = seconds_since(begin);
  const bool is_best = !state_.evaluation || evaluation->accuracy > state_.best_accuracy;
  state_.evaluation = evaluation;
  state_.best_accuracy = std::max(state_.best_accuracy, evaluation->accuracy);
  return is_best;
}

/// Trains to the end of the epoch, or of the run. @return the event of the epoch, without evaluation
observe::EpochEvent Trainer::train_epoch() {
  const std::int64_t samples_before = run_samples_;
  const double exposed = replica_.data_parallel().exposed_seconds();
  const double waited = batches_.waited_seconds();
  const Clock::time_point begin = Clock::now();
  window_seconds_ = 0;
  window_samples_ = 0;
  while (state_.step < steps_per_epoch() && state_.stopped_by == 0 && !all_steps_done()) (void)train_steps(1);
  const double seconds = seconds_since(begin);
  return {.epoch = state_.epoch,
          .train_loss = state_.epoch_loss_sum / static_cast<double>(std::max<std::int64_t>(1, state_.epoch_samples)),
          .seconds = seconds,
          .images_per_second = static_cast<double>(run_samples_ - samples_before) / seconds,
          .exposed_communication_seconds = replica_.data_parallel().exposed_seconds() - exposed,
          .data_wait_seconds = batches_.waited_seconds() - waited};
}

std::int64_t Trainer::train_steps(std::int64_t most) {
  if (state_.step == steps_per_epoch()) begin_next_epoch();
  if (!entered_) batches_.start_epoch(state_.epoch, state_.step);
  entered_ = true;
  std::int64_t taken = 0;
  while (taken < most && state_.stopped_by == 0) {
    const Clock::time_point begin = Clock::now();
    const data::Batch* batch = batches_.next();
    if (batch == nullptr) break;
    train_on(*batch);
    ++taken;
    const double seconds = seconds_since(begin);
    window_seconds_ += seconds;
    run_seconds_ += seconds;
    report_step();
    save_after_step();
    if (state_.step < steps_per_epoch()) continue;
    entered_ = false;
    break;
  }
  return taken;
}

void Trainer::train_on(const data::Batch& batch) {
  const double rate = nn::learning_rate(options_.schedule, state_.global_step, total_steps());
  try {
    if (replica_.step(batch, rate, state_, wants_to_stop() != 0 || wants_to_save())) agree_on_requests();
  } catch (const Error& error) {
    throw error.in_step(state_.global_step + 1);
  }
  ++state_.step;
  ++state_.global_step;
  state_.is_reported = false;
  state_.epoch_loss_sum += state_.last_loss * static_cast<double>(batch.step_samples.value);
  state_.epoch_samples += batch.step_samples.value;
  window_samples_ += batch.step_samples.value;
  run_samples_ += batch.step_samples.value;
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

/// Called on all ranks when they have learned that one of them wants to stop or to save.
void Trainer::agree_on_requests() {
  std::int64_t wishes[] = {wants_to_stop(), wants_to_save() ? 1 : 0};
  group_->control().all_reduce(std::span(wishes), std::span(wishes), ReduceOp::max, Queue::host(), "requests").wait();
  state_.stopped_by = static_cast<int>(wishes[0]);
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
                     .step = state_.step,
                     .loss = state_.last_loss,
                     .learning_rate = nn::learning_rate(options_.schedule, state_.global_step - 1, total_steps()),
                     .images_per_second = static_cast<double>(window_samples_) / window_seconds_});
  }
  window_seconds_ = 0;
  window_samples_ = 0;
}

Evaluation Trainer::evaluate() { return evaluate(state_.epoch, false).value(); }

/// @return nothing if a rank wanted to stop, which all ranks learn together with the sums
std::optional<Evaluation> Trainer::evaluate(std::int64_t epoch, bool may_stop) {
  replica_.store().average_statistics();
  replica_.store().gather_averages();
  std::vector<ops::LossSums> figures(replica_.model().graph().losses().size());
  double counts[2] = {0, 0};  // number of samples; number of ranks that want to stop
  test_batches_.start_epoch(1);
  for (std::int64_t done = 1; const data::Batch* batch = test_batches_.next(); ++done) {
    const std::span<const ops::LossSums> of_batch = replica_.evaluate(*batch);
    for (std::size_t term = 0; term < figures.size(); ++term) figures[term] += of_batch[term];
    counts[0] += static_cast<double>(batch->samples.value);
    if (listener_ != nullptr) {
      listener_->evaluation({.epoch = epoch, .batch = done, .batches = test_batches_.sampler().steps()});
    }
    if (!may_stop || wants_to_stop() == 0) continue;
    counts[1] = 1;
    break;
  }
  for (const Buffer& sums : std::initializer_list<Buffer>{{counts, {2}, DType::float64}, ops::numbers(figures)})
    group_->control().all_reduce(sums, sums, ReduceOp::sum, Queue::host(), "evaluation").wait();
  if (counts[1] > 0) {
    agree_on_requests();
    return std::nullopt;
  }
  return evaluation_of(figures, counts[0]);
}

/// @param figures, samples  sums over all ranks
Evaluation Trainer::evaluation_of(std::span<const ops::LossSums> figures, double samples) const {
  if (samples != static_cast<double>(data_.test->size())) {
    throw Error(ErrorCode::mismatch, "evaluation counted " + std::to_string(samples) + " samples of " +
                                         std::to_string(data_.test->size()) + ": do all ranks have the same data?")
        .on_every_rank();
  }
  const ops::LossSums& first = figures.front();
  return {.loss = replica_.model().loss_of(figures, samples),
          .accuracy = first.weight == 0 ? 0 : first.correct / first.weight};
}

std::vector<Snapshot::Setting> Trainer::settings() const {
  std::vector<Snapshot::Setting> settings = replica_.settings();
  settings.push_back({"training samples", std::to_string(data_.train->size())});
  if (!options_.data_fingerprint.empty()) settings.push_back({"data set", options_.data_fingerprint});
  settings.push_back({"batch", std::to_string(options_.batch.value)});
  settings.push_back({"drop-last", options_.drop_last ? "yes" : "no"});
  settings.push_back({"seed", std::to_string(options_.seed)});
  settings.push_back({"shards", std::to_string(options_.shards)});
  return settings;
}

Snapshot Trainer::snapshot() {
  Snapshot snapshot{.settings = settings(), .run = state_};
  replica_.save(snapshot);
  return snapshot;
}

void Trainer::restore(const Snapshot& snapshot) {
  std::vector<Snapshot::Setting> found = Replica::lengths(snapshot);
  found.insert(found.end(), snapshot.settings.begin(), snapshot.settings.end());
  require_same_run(*group_, found, settings());
  replica_.compute_as(snapshot.kernel_choices);
  replica_.restore(snapshot);
  RunState run = snapshot.run;
  static_assert(std::is_trivially_copyable_v<RunState>);
  group_->control().broadcast(Buffer{&run, {sizeof run}, DType::uint8}, {0}, Queue::host(), "state of the run").wait();
  take_over(run);
}

LoadedWeights Trainer::load_weights(const std::filesystem::path& path, WeightsMatch match) {
  return trainer::load_weights(*group_, path, replica_.store(), match);
}

Trainer::Resumed Trainer::resume(const std::string& wish, const std::filesystem::path& folder) {
  Resumed resumed;
  const auto fallback = checkpoints_ ? checkpoints_->options().fallback : std::filesystem::path();
  const auto opened = open_checkpoint(*group_, wish, folder, fallback, resumed.refused);
  if (!opened) return resumed;
  std::vector<Snapshot::Setting> saved;
  if (const auto section = opened->file.sections.find("settings"); section != opened->file.sections.end()) {
    for (const auto& [name, value] : section->second)
      if (const auto* text = std::get_if<std::string>(&value)) saved.push_back({name, *text});
  }
  for (const auto& [section, values] : opened->file.sections) {
    for (const auto& [name, value] : values)
      if (const auto* text = std::get_if<std::string>(&value)) resumed.notes[section][name] = *text;
  }
  const RunState run = run_state_of(opened->file);
  require_same_run(*group_, saved, settings());
  replica_.compute_as(opened->file.words("kernels", "choices"));
  load_tensors(*group_, opened->path, replica_.store());
  take_over(run);
  if (checkpoints_) on_rank_zero(*group_, [&] { checkpoints_->continue_from(opened->path, run.global_step); });
  resumed.path = opened->path;
  return resumed;
}

/// Continues with the state of another run.
void Trainer::take_over(RunState run) {
  run.stopped_by = 0;
  // This run's options decide whether there is a loss scale.
  if (state_.loss_scale == 0 || run.loss_scale == 0) {
    run.loss_scale = state_.loss_scale;
    run.scaled_steps = 0;
  }
  state_ = run;
  entered_ = false;
}

}  // namespace lockstep::trainer
