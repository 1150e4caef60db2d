// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run/training.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <system_error>
#include <utility>

#include "apps/cli/terminal.hpp"
#include "apps/cli/version.hpp"
#include "apps/train/run/class_table.hpp"
#include "apps/train/run/predictions.hpp"
#include "apps/train/run/texts.hpp"
#include "lockstep/backends/compressed.hpp"
#include "lockstep/ops/kernel_choices.hpp"
#include "trainer/replica/host_mirror.hpp"
#include "trainer/replica/replica.hpp"

namespace lockstep::train {
namespace {

/// Returns a path as a word for a shell.
std::string word_for_shell(const std::string& path) {
  const bool is_plain =
      path.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:,@%=") ==
      std::string::npos;
  if (is_plain) return path;
  std::string word = "'";
  for (const char character : path) word += character == '\'' ? "'\\''" : std::string(1, character);
  return word + '\'';
}

/// Says how a run that was stopped goes on from its last checkpoint, which --save-fallback may have got.
std::string how_to_continue(const RunFolder& folder, const std::string& checkpoint) {
  const bool is_in_folder = checkpoint.starts_with((folder.checkpoints / "checkpoints").string());
  return is_in_folder
             ? "to continue, with the options of this run: --save-dir " + word_for_shell(folder.path) + " --resume\n"
             : "to continue: the same options with --resume " + word_for_shell(checkpoint) + '\n';
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Closes the group after an error that all ranks throw, so that no rank mistakes one that left first for the cause.
void close_in_order(ProcessGroup& group) {
  try {
    group.close();
  } catch (const Error&) {  // the error under way says more
  }
}

std::string weights_sha256(const trainer::Replica& replica) {
  const trainer::HostMirror values(replica.model().device(), replica.data_parallel().values());
  return sha256(replica.data_parallel().layout(), values.buffer());
}

/// Returns the number of samples that an evaluation has counted. Of classifiers, those with a label that the loss
/// ignores are left out; of detectors, the classes count boxes.
std::int64_t evaluated_samples(const trainer::Trainer& trainer, const Data& data) {
  const observe::ClassCounts* counts = trainer.classes();
  return counts == nullptr || !counts->images.empty()
             ? data.sets.test->size()
             : std::accumulate(counts->labels.begin(), counts->labels.end(), std::int64_t{0});
}

GroupOptions group_options(const RunContext& run) {
  const bool adds_shards_on_gpus = run.options.trainer.step.shards > 0 && run.model.device.device == Device::cuda;
  return {.device = run.model.device.device,
          .gpus = run.model.device.gpus,
          .algorithm = adds_shards_on_gpus ? "tree-order" : run.options.algorithm,
          .tuning = run.options.tuning,
          .wait = make_wait_policy(run.options.wait, run.cluster.node.spins_before_yield),
          .progress_thread = has_progress_thread(run),
          .deadline = std::chrono::duration<double>(run.options.timeout_seconds),
          .check = run.options.check,
          .observer = run.recorder,
          .notice = [&console = run.console](std::string_view text) { console.notice(text); },
          .compress = backends::parse_compression(run.options.compress),
          .sockets = run.options.sockets,
          .checksum = run.options.checksum,
          .connections = run.options.connections};
}

/// Returns the GPUs that the ranks of this rank's host have, in their order. Collective.
std::vector<int> gpus_of_host(const RankSet& ranks, int own) {
  const std::vector<std::string> all = ranks.exchange(std::to_string(own));
  const std::vector<int>& nodes = ranks.shape().node_of_rank;
  std::vector<int> gpus;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (nodes[rank] == nodes[static_cast<std::size_t>(ranks.rank().value)]) gpus.push_back(std::stoi(all[rank]));
  return gpus;
}

/// Returns the size of a bucket where the user does not say it: a small part of the gradients, so that they travel
/// during backward, but not so small that latency counts.
Bytes usual_bucket(const ModelOnDevice& model, DType reals) {
  constexpr std::int64_t on_gpus = 25 << 20;  // their links need larger messages for their bandwidth than networks do
  constexpr std::int64_t least = 256 << 10;
  constexpr std::int64_t most = 4 << 20;
  if (model.device.device == Device::cuda) return {on_gpus};
  return {std::clamp(model.graph.parameters().count().value * size_of(reals) / 8, least, most)};
}

/// A GPU computes a step in the time in which a thread prepares a fraction of its batch, and leaves the threads free.
int usual_workers(const RunContext& run) {
  constexpr int most = 8;
  return run.model.device.device == Device::cuda ? std::clamp(run.cluster.threads, 1, most) : 1;
}

/// Returns the options of the user with what the stages have decided.
trainer::TrainerOptions trainer_options(const RunContext& run) {
  trainer::TrainerOptions options = run.options.trainer;
  options.batch = run.data.batch;
  options.evaluates_only = run.options.eval_only;
  options.schedule = run.data.schedule;
  options.data_fingerprint = run.data.fingerprint;
  options.older_data_fingerprint = run.data.older_fingerprint;
  options.model_variant = run.model.variant;
  options.metrics = metrics_of(run.model.workload, run.data);
  options.usual_best_metric = run.model.workload.best_metric;
  options.graphs = graphs_of(run.model);
  const bool has_lanes = options.step.shards > 0 && run.model.device.device == Device::cpu;  // threads of the host
  options.step.lanes = has_lanes ? run.cluster.threads : 1;
  options.workers = run.options.workers.value_or(usual_workers(run));
  options.bucket = run.options.bucket.value_or(usual_bucket(run.model, run.options.precision.reals));
  return options;
}

}  // namespace

Training::Training(const RunContext& run, RunFiles& files) : run_(run), files_(files) {
  const Options& options = run.options;
  connect();
  computation_ = prepare_computation(run.cluster, options, run.data, run.model, *group_, run.console);
  run.console.print(header_text(run, computation_, cli::table_columns()));
  run.console.phase("preparing the model");
  run.console.record(std::move(files.reports));
  make_trainer();
  run.console.print(memory_text(*trainer_, cli::table_columns()));
  if (!options.eval_only) run.console.print(resume(run, *trainer_, computation_.library));
  run.console.print(load_weights(run, *trainer_));
  first_step_ = trainer_->state().global_step;
  if (options.explain && run.cluster.world.rank() == Rank{0})
    run.console.print(explanation(options, *group_, *trainer_));
  if (options.explain_step) show_step(run, *computation_.ops);
  report_start();
}

/// When ranks have died, a rank stays on the GPU that has its operators.
void Training::connect() {
  GroupOptions options = group_options(run_);
  if (gpu_) options.gpus = gpus_of_host(run_.cluster.world.group(), *gpu_);
  group_ = std::make_unique<ProcessGroup>(run_.cluster.world, options);
  gpu_ = group_->gpu();
}

void Training::make_trainer() {
  const Options& options = run_.options;
  trainer_ = std::make_unique<trainer::Trainer>(*group_, *computation_.ops, run_.model.graph, run_.data.sets,
                                                trainer_options(run_), run_.console.listener(), run_.recorder);
  show_predictions(run_, *trainer_);
  trainer_->stop_on(StopSignals::received());
  trainer_->save_on(StopSignals::save_requests());
  if (options.max_seconds > 0)
    trainer_->stop_at(run_.begin +
                      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.max_seconds)));
  if (run_.folder.path != no_save_dir)
    trainer_->save_checkpoints(checkpoint_options(options, run_.folder, *computation_.ops, run_.model.description));
}

void Training::report_start() {
  if (!run_.console.is_shown()) return;
  const Options& options = run_.options;
  const World& world = run_.cluster.world;
  const ops::Ops& ops = *computation_.ops;
  const Phase phase(world.group(), "writing the first metrics", Phase::Kind::work);
  run_.console.start({.version = cli::commit(),
                      .model = options.model,
                      .dataset = name_of_data(options),
                      .algorithm = options.algorithm,
                      .compress = options.compress,
                      .device = std::string(name(run_.model.device.device)),
                      .ops = computation_.library,
                      .precision = std::string(options.precision.name),
                      .kernel_choices = ops.choices().empty() ? "" : ops.choices().hash(),
                      .emulation = emulation_of(options.precision, ops),
                      .seed = options.trainer.seed,
                      .epochs = options.trainer.epochs,
                      .batch = run_.data.batch,
                      .hosts = world.hosts(),
                      .step = trainer_->state().global_step},
                     run_.data.length);
}

observe::EndEvent Training::end_event(const std::string& weights) const {
  const trainer::RunState& run = trainer_->state();
  const bool is_signal = run.stopped_by != 0 && run.stopped_by != trainer::stopped_by_time;
  const char* outcome = trainer_->stops_early() ? "early-stopped" : "completed";
  return {.outcome = run.stopped_by == 0 ? outcome : "stopped",
          .signal = is_signal ? signal_name(run.stopped_by) : "",
          .epochs = trainer_->completed_epochs(),
          .steps = run.global_step,
          .steps_of_start = steps(),
          .seconds = seconds_since(begin_),
          .best = run.best,
          .last = last_evaluation(),
          .evaluated_step = run.evaluated_step,
          .skipped_updates = run.skipped,
          .optimizer_bytes = trainer_->replica().store().optimizer_bytes().value,
          .weights_sha256 = weights};
}

int Training::evaluate() {
  begin_ = Clock::now();
  const std::vector<observe::MetricValue> found = trainer_->evaluate();
  if (run_.console.is_shown()) {
    const std::string weights = weights_sha256(trainer_->replica());
    const std::int64_t samples = evaluated_samples(*trainer_, run_.data);
    run_.console.result({.metrics = found, .samples = samples, .seconds = seconds_since(begin_)});
    run_.console.print(evaluation_text(found, samples));
    report_classes();
    observe::EndEvent event = end_event(weights);
    event.best = event.last = found;
    run_.console.end(event);
    run_.console.print("weights sha256 " + weights + '\n');
  }
  group_->close();
  return exit_success;
}

int Training::predict() {
  const Predictions& predictions = add_predictions(run_, *trainer_);
  (void)trainer_->evaluate();
  run_.console.print(write_predictions(run_, predictions));
  group_->close();
  return exit_success;
}

void Training::run() {
  begin_ = Clock::now();
  try {
    if (run_.options.min_ranks == 0) return run_to_end();
    trainer_->remember();
    run_.cluster.world.run_elastic([this](const std::vector<LostRank>& lost) { train(lost); });
  } catch (const Error& error) {
    record_failure(error.what());
    if (error.is_on_every_rank() && group_ != nullptr) close_in_order(*group_);
    throw;
  } catch (const std::exception& error) {
    record_failure(error.what());
    throw;
  }
}

/// Trains to the end on the ranks that are left.
void Training::train(const std::vector<LostRank>& lost) {
  try {
    if (!lost.empty()) go_on_without(lost);
    if (!recovery_.dead.empty()) {
      recovery_.done.push_back({.number = std::ssize(recovery_.done) + 1,
                                .step = trainer_->state().global_step,
                                .ranks = std::exchange(recovery_.dead, {}),
                                .left = run_.cluster.world.size(),
                                .seconds = seconds_since(recovery_.failed_at)});
      run_.console.recovered(recovery_.done.back(), run_.data.length);
    }
    run_to_end();
  } catch (const Error&) {
    if (recovery_.dead.empty()) recovery_.failed_at = Clock::now();
    throw;
  }
}

void Training::record_failure(const char* cause) {
  observe::EndEvent event;
  if (trainer_ != nullptr) {
    event = end_event("");
  } else if (recovery_.memory) {  // the failure of making a trainer for the ranks that are left
    event.steps = recovery_.memory->run.global_step;
    event.steps_of_start = event.steps - first_step_;
    event.seconds = seconds_since(begin_);
    event.best = recovery_.memory->run.best;
  }
  event.outcome = "failed";
  event.signal.clear();
  event.error = cause;
  run_.console.end(event);
}

void Training::run_to_end() {
  result_ = trainer_->run();
  report_end();
  group_->close();
}

void Training::report_end() {
  Console& console = run_.console;
  if (!console.is_shown()) return;
  console.print(summary_text(run_, *trainer_,
                             {.seconds = seconds_since(begin_),
                              .steps = steps(),
                              .recoveries = std::ssize(recovery_.done),
                              .lost_metrics = console.lost_metrics()}));
  report_classes();
  const std::string& last = console.last_checkpoint();
  if (trainer_->is_saved() && !last.empty()) {
    console.print("model: " + last + '\n');
    if (result_.stopped_by != 0) console.print(how_to_continue(run_.folder, last));
  }
  console.phase("computing the checksum of the weights");
  const std::string weights = weights_sha256(trainer_->replica());
  console.end(end_event(weights));
  console.print("weights sha256 " + weights + '\n');
}

void Training::report_classes() {
  const observe::ClassCounts* counts = trainer_->classes();
  if (counts == nullptr) return;
  run_.console.print(absent_classes(*counts, cli::table_columns()));
  if (!run_.options.per_class) return;
  const trainer::RunState& run = trainer_->state();
  const bool is_older = run.evaluated_step != run.global_step;
  run_.console.print("\ntest samples by class" +
                     (is_older ? ", after step " + std::to_string(run.evaluated_step) : std::string()) + ":\n" +
                     class_table(*counts, cli::table_columns()) + '\n');
  run_.console.classes({.step = run.evaluated_step, .counts = *counts});
}

int Training::exit_code() const {
  if (!trainer_->is_saved()) return exit_not_saved;
  return result_.stopped_by == 0 ? exit_success : exit_stopped;
}

std::string Training::not_saved_text() const {
  const Console& console = run_.console;
  if (trainer_->is_saved() || !console.is_shown()) return {};
  const std::string& last = console.last_checkpoint();
  const std::string why = !console.last_failure().empty() ? console.last_failure() : last + " has been removed";
  std::error_code error;
  const bool is_there = !last.empty() && std::filesystem::exists(std::filesystem::path(last) / "state.json", error);
  return "not saved: no checkpoint has the state after step " + std::to_string(result_.global_step) + ": " + why +
         (is_there ? ". The newest one is " + last : ". This start has saved none") + '\n';
}

/// Writes the events that the metrics file lacks, of the state to go on from and of earlier recoveries: rank 0 has died
/// before it has written them, or another rank was further. Only rank 0 of that time has measured the times of a step,
/// which are 0 here.
void Training::report_what_is_missing() {
  const std::string& path = run_.folder.metrics;
  if (!run_.console.is_shown() || path.empty()) return;
  for (const observe::RecoveryEvent& event : recovery_.done)
    if (!observe::has_event(path, "recovery", event.number)) run_.console.recovered_earlier(event);
  const trainer::RunState& run = trainer_->state();
  const bool is_logged = run.step > 0 && run.step % run_.options.trainer.log_every == 0;
  if (is_logged && !observe::has_event(path, "step", run.global_step))
    run_.console.step(
        {.epoch = run.epoch,
         .step = run.global_step,
         .loss = run.last_loss,
         .learning_rate = nn::learning_rate(run_.data.schedule, run.global_step - 1, trainer_->total_steps())});
  if (run.is_reported && !observe::has_event(path, "epoch", run.epoch))
    run_.console.epoch({.epoch = run.epoch,
                        .step = run.global_step,
                        .train_loss = run.epoch_loss_sum / static_cast<double>(run.epoch_samples),
                        .metrics = last_evaluation()});
}

/// Returns the metrics of the weights at the end: none if a step has been taken since the last evaluation.
std::vector<observe::MetricValue> Training::last_evaluation() const {
  const trainer::RunState& run = trainer_->state();
  return run.evaluated_step == run.global_step ? run.evaluation : trainer_->metrics();
}

/// Makes all that belongs to the ranks anew. If more ranks die meanwhile, it is called again, with what was remembered
/// at first.
void Training::go_on_without(const std::vector<LostRank>& lost) {
  const World& world = run_.cluster.world;
  for (const LostRank& rank : lost) recovery_.dead.push_back({rank.rank, rank.host});
  if (world.size() < run_.options.min_ranks) {
    throw Error(ErrorCode::unsupported,
                "after the death of rank " + std::to_string(recovery_.dead.back().rank) + " on " +
                    recovery_.dead.back().host + ", " + std::to_string(world.size()) +
                    " ranks are left, and --min-ranks asks for " + std::to_string(run_.options.min_ranks) +
                    ": start again, with --resume where there is a checkpoint",
                {.rank = world.rank().value, .host = world.host()})
        .on_every_rank();
  }
  if (!recovery_.memory) recovery_.memory = trainer_->memory();
  if (group_ != nullptr) group_->progress().poll();  // operations that are under way hear that the group has failed
  trainer_.reset();
  group_.reset();
  run_.console.begin(world);
  files_ = open_files(world, run_.folder);
  run_.console.record(std::move(files_.reports));
  connect();
  make_trainer();
  trainer_->go_on_from(*recovery_.memory);
  report_what_is_missing();
  recovery_.memory.reset();
}

}  // namespace lockstep::train
