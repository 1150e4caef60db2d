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
  require(!options.balance || options.shards > 0, "balance moves shards, and there are none: set their number", group);
  require(options.batch.value <= data.train->size(),
          "a batch of " + number(options.batch.value) + " is more than the data set's " + number(data.train->size()) +
              " training images",
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
                                    .shards = options.shards});
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

/// Returns the index of a metric, or their number if there is none of this name.
std::size_t index_of(const std::vector<observe::MetricValue>& metrics, const std::string& name) {
  const auto has_name = [&](const observe::MetricValue& metric) { return metric.name == name; };
  return static_cast<std::size_t>(std::find_if(metrics.begin(), metrics.end(), has_name) - metrics.begin());
}

bool is_there(const std::vector<observe::MetricValue>& metrics, const std::string& name) {
  return index_of(metrics, name) < metrics.size();
}

/// Returns the metrics with the values that a checkpoint has of them.
std::vector<observe::MetricValue> with_values_of(const std::vector<observe::MetricValue>& saved,
                                                 std::vector<observe::MetricValue> metrics) {
  for (observe::MetricValue& metric : metrics) metric.value = observe::value_of(saved, metric.name);
  return metrics;
}

/// Prepares the replica for all numbers of samples that this rank gets in a step.
void prepare_shares(Replica& replica, const data::DistributedSampler& sampler) {
  for (const std::int64_t step : {std::int64_t{0}, sampler.steps() - 1})
    replica.prepare({static_cast<std::int64_t>(sampler.indices(step).size())}, true);
}

/// Returns the parts of a test batch that this rank predicts by themselves, as ranges of the global batch: its shards,
/// if there are any, because how a kernel rounds a sample may depend on how many others it computes with it.
std::vector<Share> predicted_parts(std::int64_t step_samples, const ProcessGroup& group, const LeafShares& shards) {
  const bool has_shards = shards.total() > 0;
  const std::int64_t parts = has_shards ? shards.total() : group.size();
  const Share own = has_shards ? shards.of(group.rank().value, group.size()) : Share{group.rank().value, 1};
  std::vector<Share> ranges;
  for (std::int64_t part = own.first; part < own.end(); ++part) {
    const Share range = share_of(step_samples, part, parts);
    if (range.count > 0 || !has_shards) ranges.push_back(range);
  }
  return ranges;
}

/// A part of this rank's share of a batch, as a view.
class PartOfBatch {
 public:
  PartOfBatch(const data::Batch& batch, const Share& range) : part_(batch) {
    const std::int64_t offset = range.first - batch.first;
    for (const Buffer& tensor : batch.tensors) {
      const std::int64_t each = batch.samples.value == 0 ? 0 : tensor.count.value / batch.samples.value;
      tensors_.push_back(slice(tensor, {offset * each}, {range.count * each}));
    }
    part_.samples = {range.count};
    part_.first = range.first;
    part_.ids = batch.ids.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(range.count));
    part_.tensors = tensors_;
  }
  PartOfBatch(const PartOfBatch&) = delete;
  PartOfBatch& operator=(const PartOfBatch&) = delete;
  ~PartOfBatch() = default;
  [[nodiscard]] const data::Batch& batch() const { return part_; }

 private:
  std::vector<Buffer> tensors_;
  data::Batch part_;
};

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
  state_.loss_scale = options_.loss_scale.initial;
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

void Trainer::add_metric(std::unique_ptr<Metric> metric) {
  for (observe::MetricValue& value : metric->values()) {
    require(!is_there(state_.best, value.name), "there is a metric '" + value.name + "' already: give it another name",
            *group_);
    value.value.reset();
    state_.evaluation.push_back(value);
    state_.best.push_back(std::move(value));
    state_.evaluations_since_best.push_back(0);
  }
  metrics_.push_back(std::move(metric));
}

std::vector<observe::MetricValue> Trainer::metrics() const {
  std::vector<observe::MetricValue> metrics = state_.evaluation;
  for (observe::MetricValue& metric : metrics) metric.value.reset();
  return metrics;
}

void Trainer::check_metrics() const {
  const EarlyStop& stop = options_.early_stop;
  require(stop.patience >= 0, "a patience of " + std::to_string(stop.patience) + ": it cannot be negative", *group_);
  std::vector<std::string_view> names;
  for (const observe::MetricValue& metric : state_.best) names.push_back(metric.name);
  for (const std::string& name : {options_.best_metric, stop.patience > 0 ? stop.metric : ""})
    require(name.empty() || is_there(state_.best, name), unknown("metric", name, names), *group_);
  require(stop.patience == 0 || !stop.metric.empty(), "early stopping needs the name of a metric", *group_);
}

bool Trainer::stops_early() const {
  const std::size_t metric = index_of(state_.best, options_.early_stop.metric);
  return options_.early_stop.patience > 0 && metric < state_.best.size() && !all_steps_done() &&
         state_.evaluations_since_best[metric] >= options_.early_stop.patience;
}

const RunState& Trainer::run() {
  check_metrics();
  while (state_.stopped_by == 0 && !(state_.is_reported && (all_steps_done() || stops_early()))) {
    if (state_.is_reported && state_.step == steps_per_epoch()) begin_next_epoch();
    observe::EpochEvent event = train_epoch();
    const bool is_best = state_.stopped_by == 0 && evaluate_epoch(event);
    state_.is_reported = state_.stopped_by == 0;  // a run that resumes catches up on it
    complete();
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
  const bool is_between_steps = replica_.model().in_flight() == 0;
  const bool saves_later = state_.step == steps_per_epoch() || all_steps_done() || state_.stopped_by != 0;
  if (is_due && is_between_steps && !saves_later) start_saving(false);
}

void Trainer::save_after_epoch(bool is_best) {
  const CheckpointOptions& options = checkpoints_->options();
  const bool by_epochs = options.epochs > 0 && state_.epoch % options.epochs == 0;
  const bool by_steps = options.steps > 0 && state_.global_step % options.steps == 0;
  const bool is_end = all_steps_done() || stops_early() || state_.stopped_by != 0;
  if (is_best || by_epochs || by_steps || save_is_due_ || is_end) start_saving(is_best);
}

void Trainer::save() {
  start_saving(false);
  checkpoints_->finish();
}

void Trainer::start_saving(bool is_best) {
  save_is_due_ = false;
  group_->progress().note_task("saving a checkpoint", state_.global_step);
  state::StateFile file;
  for (const auto& [name, value] : settings_of(replica_.store(), options_, data_.train->size()))
    file.sections[settings_section][name] = value;
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
  const auto evaluation = evaluate(event.epoch, true);
  if (!evaluation) return false;
  event.metrics = state_.evaluation = *evaluation;
  event.evaluation_seconds = seconds_since(begin);
  // Rank 0 decides, so that all ranks save and stop together even if a metric rounds differently somewhere.
  std::vector<std::uint8_t> is_better(state_.best.size());
  for (std::size_t i = 0; i < is_better.size(); ++i)
    is_better[i] = state_.evaluation[i].is_better_than(state_.best[i].value) ? 1 : 0;
  group_->control().broadcast(std::span(is_better), {0}, Queue::host(), "best metrics").wait();
  for (std::size_t i = 0; i < is_better.size(); ++i) {
    ++state_.evaluations_since_best[i];
    if (is_better[i] == 0) continue;
    state_.best[i] = state_.evaluation[i];
    state_.evaluations_since_best[i] = 0;
  }
  return is_better[best_metric()] != 0;
}

/// Returns the index of the metric whose best evaluation is the best checkpoint.
std::size_t Trainer::best_metric() const {
  const std::string usual = is_there(state_.best, "accuracy") ? "accuracy" : "loss";
  return index_of(state_.best, options_.best_metric.empty() ? usual : options_.best_metric);
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

Trainer::Times Trainer::times() const { return {run_seconds_, batches_.waited_seconds(), replica_.waited_seconds()}; }

/// Compares the ranks' own times since then. Collective.
std::vector<observe::SlowRank> Trainer::slow_ranks_since(const Times& before, std::int64_t steps) {
  const Times now = times();
  const double data = now.data - before.data;
  const double others = now.run - before.run - data;
  // On a device the host does not see how much of the time it computes and how much it waits for other ranks.
  const bool is_host = replica_.model().device().queue().is_host();
  const double wait = is_host ? now.wait - before.wait : others;
  return find_slow_ranks(*group_, {.data = data, .compute = others - wait, .wait = wait}, steps);
}

bool Trainer::wants_straggler_report() const {
  return options_.straggler_seconds > 0 && group_->rank() == Rank{0} &&
         seconds_since(stragglers_.reported) >= options_.straggler_seconds;
}

/// Reports the slow ranks since the last report. Collective.
void Trainer::report_stragglers() {
  const std::int64_t steps = state_.global_step - stragglers_.global_step;
  const observe::StragglerEvent event{
      .epoch = state_.epoch, .step = state_.step, .steps = steps, .ranks = slow_ranks_since(stragglers_.before, steps)};
  stragglers_ = {.before = times(), .global_step = state_.global_step, .reported = Clock::now()};
  if (listener_ != nullptr && !event.ranks.empty()) listener_->stragglers(event);
}

void Trainer::move_shards(const LeafShares& shards) {
  replica_.move_shards(shards);
  replica_.start_from(state_);
  batches_.move_shards(shards);
  test_batches_.move_shards(shards);
  prepare_shares(replica_, batches_.sampler());
}

/// Adds the step to the times that decide whether shards move, and moves them if they are to. Collective.
void Trainer::balance(double step_seconds) {
  const double waited = replica_.waited_seconds() - std::exchange(waited_before_step_, replica_.waited_seconds());
  if (!balance_->add({.own = step_seconds - waited, .whole = step_seconds})) return;
  const std::optional<LeafShares> better = balance_->decide(*group_, replica_.shards());
  if (!better) return;
  group_->progress().note_task("moving shards", state_.global_step);
  move_shards(*better);
  if (listener_ != nullptr)
    listener_->balance({.epoch = state_.epoch, .step = state_.step, .shards = better->counts(group_->size())});
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
                     .step = state_.step,
                     .loss = state_.last_loss,
                     .learning_rate = nn::learning_rate(options_.schedule, state_.global_step - 1, total_steps()),
                     .images_per_second = static_cast<double>(window_samples_) / window_seconds_});
  }
  window_seconds_ = 0;
  window_samples_ = 0;
}

std::vector<observe::MetricValue> Trainer::evaluate() { return evaluate(state_.epoch, false).value(); }

/// @return nothing if a rank wanted to stop, which all ranks learn together with the sums
std::optional<std::vector<observe::MetricValue>> Trainer::evaluate(std::int64_t epoch, bool may_stop) {
  group_->progress().note_task("evaluating", state_.global_step);
  replica_.store().average_statistics();
  replica_.store().gather_averages();
  for (const std::unique_ptr<Metric>& metric : metrics_) metric->reset();
  double counts[2] = {0, 0};  // number of samples; number of ranks that want to stop
  test_batches_.start_epoch(1);
  for (std::int64_t done = 1; const data::Batch* batch = test_batches_.next(); ++done) {
    for (const Share& range : predicted_parts(batch->step_samples.value, *group_, replica_.shards())) {
      const PartOfBatch part(*batch, range);
      const nn::Prediction prediction = replica_.predict(part.batch());
      for (const std::unique_ptr<Metric>& metric : metrics_) metric->add(prediction, part.batch());
    }
    counts[0] += static_cast<double>(batch->samples.value);
    if (listener_ != nullptr) {
      listener_->evaluation({.epoch = epoch, .batch = done, .batches = test_batches_.sampler().steps()});
    }
    if (!may_stop || wants_to_stop() == 0) continue;
    counts[1] = 1;
    break;
  }
  group_->control().all_reduce(std::span(counts), std::span(counts), ReduceOp::sum, Queue::host(), "evaluation").wait();
  if (counts[1] > 0) {
    agree_on_requests();
    return std::nullopt;
  }
  if (counts[0] != static_cast<double>(data_.test->size())) {
    throw Error(ErrorCode::mismatch, "evaluation counted " + std::to_string(counts[0]) + " samples of " +
                                         std::to_string(data_.test->size()) + ": do all ranks have the same data?")
        .on_every_rank();
  }
  std::vector<observe::MetricValue> values;
  for (const std::unique_ptr<Metric>& metric : metrics_) {
    metric->reduce(group_->control());
    const std::vector<observe::MetricValue> of_metric = metric->values();
    values.insert(values.end(), of_metric.begin(), of_metric.end());
  }
  return values;
}

LoadedWeights Trainer::load_weights(const std::filesystem::path& path, WeightsMatch match) {
  return trainer::load_weights(*group_, path, replica_.store(), match);
}

Trainer::Resumed Trainer::resume(const std::string& wish, const std::filesystem::path& folder) {
  Resumed resumed;
  const auto fallback = checkpoints_ ? checkpoints_->options().fallback : std::filesystem::path();
  const auto opened = open_checkpoint(*group_, wish, folder, fallback, resumed.refused);
  if (!opened) return resumed;
  RunState run = run_state_of(opened->file);
  for (const auto& [section, values] : opened->file.sections) {
    for (const auto& [name, value] : values)
      if (const auto* text = std::get_if<std::string>(&value)) resumed.notes[section][name] = *text;
  }
  require_same_run(*group_, opened->file, settings_of(replica_.store(), options_, data_.train->size()));
  resumed.foreign_kernel_choices = replica_.compute_as(opened->file.words("kernels", "choices"));
  load_tensors(*group_, opened->path, replica_.store());
  take_over(std::move(run));
  if (checkpoints_) on_rank_zero(*group_, [&] { checkpoints_->continue_from(opened->path, state_.global_step); });
  resumed.path = opened->path;
  return resumed;
}

/// Notes that all of a step, or of an evaluation, is done. Nothing between the update of a step and this call waits for
/// other ranks, so what a rank has completed it has as a whole.
void Trainer::complete() {
  if (!replica_.store().remembers()) return;
  replica_.store().keep_gathered();
  completed_ = state_;
}

std::vector<Buffer> Trainer::tensors() const {
  const Store& store = replica_.store();
  std::vector<Buffer> all = store.optimizer_state();
  all.push_back(store.values());
  all.push_back(store.averages());
  return all;
}

void Trainer::remember() {
  const std::string what = replica_.store().is_sharded() ? "a sharded optimizer: a rank that dies takes its part along"
                           : !replica_.model().device().queue().is_host() ? "operators on a GPU: NCCL's ranks are fixed"
                                                                          : "";
  if (!what.empty()) {
    throw Error(ErrorCode::unsupported, "ranks cannot go on without one that dies, with " + what,
                {.rank = group_->rank().value, .host = group_->host()})
        .on_every_rank();
  }
  replica_.store().remember_statistics();
  completed_ = state_;
}

RunMemory Trainer::memory() {
  if (checkpoints_) checkpoints_->finish();
  RunMemory memory{.run = completed_, .tensors = {}, .statistics = replica_.store().remembered().copy()};
  for (const Buffer& tensor : tensors()) {
    const auto* begin = static_cast<const std::byte*>(tensor.data);
    memory.tensors.emplace_back(begin, begin + tensor.bytes().value);
  }
  memory.saves_heard = saves_heard_;
  return memory;
}

void Trainer::go_on_from(const RunMemory& own) {
  const std::int64_t completed = 2 * own.run.global_step + (own.run.is_reported ? 1 : 0);
  const std::int64_t most = group_->max(completed);
  const Rank source{group_->min(completed == most ? group_->rank().value : group_->size())};
  const bool is_everybody_there = group_->min(completed) == most;
  const auto share = [&](const Buffer& buffer) {
    if (!is_everybody_there) group_->broadcast(buffer, source);
  };
  state::StateFile file;
  add_run(own.run, file);
  RunState run = run_state_of(state::StateFile::parse(text_of_rank(*group_, file.text(), source), "the run's state"));
  std::vector<Buffer> all = tensors();
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::copy(own.tensors[i].begin(), own.tensors[i].end(), static_cast<std::byte*>(all[i].data));
    share(all[i]);
  }
  Store::AllStatistics statistics = own.statistics.copy();
  share(statistics.parts);
  share(Buffer(statistics.samples.data(), {std::ssize(statistics.samples)}, DType::int64));
  replica_.store().take_statistics(statistics);
  take_over(std::move(run));
  saves_heard_ = own.saves_heard;
  remember();
  if (!checkpoints_ || state_.global_step == 0) return;
  if (!state_.is_reported) return save_after_step();
  save_after_epoch(state_.evaluation[best_metric()].value && state_.evaluations_since_best[best_metric()] == 0);
}

/// Continues with the state of another run.
void Trainer::take_over(RunState run) {
  run.stopped_by = 0;
  // This run's options decide whether there is a loss scale.
  if (state_.loss_scale == 0 || run.loss_scale == 0) {
    run.loss_scale = state_.loss_scale;
    run.scaled_steps = 0;
  }
  std::vector<std::int64_t> since_best(state_.best.size());
  for (std::size_t i = 0; i < since_best.size(); ++i) {
    const std::size_t saved = index_of(run.best, state_.best[i].name);
    if (saved < run.best.size()) since_best[i] = run.evaluations_since_best[saved];
  }
  run.evaluations_since_best = std::move(since_best);
  run.evaluation = with_values_of(run.evaluation, metrics());
  run.best = with_values_of(run.best, metrics());
  state_ = std::move(run);
  replica_.start_from(state_);
  entered_ = false;
}

}  // namespace lockstep::trainer
