// SPDX-License-Identifier: Apache-2.0
#include "apps/train/session.hpp"

#include <algorithm>
#include <csignal>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/run_app.hpp"
#include "apps/common/same_options.hpp"
#include "apps/common/terminal.hpp"
#include "apps/common/version.hpp"
#include "apps/train/device.hpp"
#include "apps/train/graph_for_data.hpp"
#include "apps/train/kernel_choices.hpp"
#include "apps/train/load_data.hpp"
#include "apps/train/reporter.hpp"
#include "apps/train/run_folder.hpp"
#include "apps/train/stop_signals.hpp"
#include "apps/train/texts.hpp"
#include "apps/train/training.hpp"
#include "apps/train/voice.hpp"
#include "base/wrapped.hpp"
#include "ddp/on_gpus.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/data/datasets.hpp"
#include "lockstep/nn/explain.hpp"
#include "lockstep/ops/kernel_choices.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "observe/trace.hpp"
#include "platform/mpi/agreement.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/cluster_view.hpp"
#include "platform/mpi/phase.hpp"
#include "platform/mpi/print.hpp"

namespace lockstep::train {
namespace {

int threads_of_this_rank(const Options& options, const World& world, const NodeView& node) {
  if (options.threads > 0) return options.threads;
  const auto mine = static_cast<std::size_t>(world.place().local_rank);
  const CpuSet& pus = node.bound_pus[mine];
  const auto sharing = std::count(node.bound_pus.begin(), node.bound_pus.end(), pus);
  return std::max(1, static_cast<int>(pus.size() / std::max<std::ptrdiff_t>(1, sharing)));
}

observe::StartEvent start_event(const World& world, const Options& options, const ops::Ops& ops) {
  return {.version = commit(),
          .model = options.model,
          .dataset = options.dataset,
          .algorithm = options.algorithm,
          .compress = options.compress,
          .device = options.device,
          .ops = options.ops,
          .precision = std::string(options.precision.name),
          .kernel_choices = ops.choices().empty() ? "" : ops.choices().hash(),
          .emulation = emulation_of(options.precision, ops),
          .seed = options.trainer.seed,
          .epochs = options.trainer.epochs,
          .batch = options.trainer.batch,
          .hosts = world.hosts()};
}

void report_start(const World& world, const Options& options, const ops::Ops& ops, const observe::RunLength& run,
                  Voice& voice) {
  if (voice.reporter() == nullptr) return;
  const Phase phase(world.group(), "writing the first metrics", Phase::Kind::work);
  voice.reporter()->start(start_event(world, options, ops), run);
}

void write_trace(const World& world, const Options& options, RunFiles& files, const observe::TraceRecorder* recorder,
                 Voice& voice) {
  if (recorder == nullptr) return;
  voice.phase("writing " + options.trace);
  const Phase phase(world.group(), "writing the trace '" + options.trace + "'", Phase::Kind::work);
  const std::vector<std::string> events = gather_strings(world.group(), recorder->events_json(), {0});
  agree(world.group(), [&] {
    if (files.trace) files.trace->write(events);
  });
  voice.print("trace: " + options.trace + '\n');
}

/// Shows the ranks and their hosts. @return this rank's node
NodeView show_cluster(const World& world, const Options& options, const DeviceChoice& device, Voice& voice) {
  const Phase phase(world.group(), "showing the cluster");
  const bool on_gpus = device.device == Device::cuda;
  const Topology topology = on_gpus ? ddp::machine_with_gpus() : discover_topology();
  NodeView node = gather_node(world, topology, std::max(1, options.threads));
  if (!on_gpus) node.gpu.reset();
  // The group refuses a list that does not fit the host.
  const auto local_rank = static_cast<std::size_t>(world.place().local_rank);
  if (local_rank < device.gpus.size() && device.gpus[local_rank] < static_cast<int>(topology.gpus.size()))
    node.gpu = device.gpus[local_rank];
  node.threads = on_gpus ? 1 : threads_of_this_rank(options, world, node);
  const auto cluster = gather_cluster(world, topology, node);
  if (cluster) voice.print(format_table(*cluster, table_columns()) + "\n");
  return node;
}

/// @throws UsageError on every rank if one has it
nn::Graph make_graph(const World& world, const Options& options, const nn::Models& models, const data::Dataset& train) {
  std::optional<nn::Graph> graph;
  const Phase phase(world.group(), "making the model '" + options.model + "'", Phase::Kind::work);
  std::string mistake;
  try {
    graph = graph_for_data(options, models, {train.tensors(), train.classes()});
  } catch (const UsageError& error) {
    mistake = error.what();
  }
  require_no_mistake(world, mistake);
  return *std::move(graph);
}

observe::RunLength length_of(const trainer::TrainerOptions& options, const data::Dataset& train) {
  const std::int64_t whole = train.size() / options.batch.value;
  const bool is_complete = options.drop_last || train.size() % options.batch.value == 0;
  const std::int64_t per_epoch = std::max<std::int64_t>(1, is_complete ? whole : whole + 1);
  const std::int64_t in_all_epochs = options.epochs * per_epoch;
  return {.steps = options.steps > 0 ? std::min(options.steps, in_all_epochs) : in_all_epochs,
          .steps_per_epoch = per_epoch,
          .images_per_epoch = {std::min(per_epoch * options.batch.value, train.size())},
          .batch = options.batch,
          .eval_interval = options.eval_interval};
}

/// Returns the warm-up in steps of this data set. The model's default is shortened if the run is too short for it, and
/// left out before one cycle, which has its own; a warm-up that the user gave is used as it is.
/// @throws UsageError on every rank
std::int64_t warmup_of(const Options& options, const observe::RunLength& run) {
  if (options.trainer.schedule.decay == nn::Decay::one_cycle) return 0;
  const std::int64_t steps =
      options.warmup_steps.value_or(nn::warmup_steps(options.warmup_epochs, run.steps_per_epoch));
  if (!options.warmup_given) return std::min(steps, run.steps / 2);
  if (steps < run.steps) return steps;
  throw UsageError((options.warmup_steps ? "--warmup-steps" : "--warmup") + std::string(": a warm-up over ") +
                   std::to_string(steps) + " steps must end within the run's " + std::to_string(run.steps) +
                   " steps: shorten it, or train for longer" +
                   (options.warmup_steps ? ""
                                         : "; --warmup is in epochs, of " + std::to_string(run.steps_per_epoch) +
                                               " steps each, and --warmup-steps in steps"));
}

/// Prints the library's messages to standard error, because standard output belongs to the run.
void tell_user(const Options& options, std::string_view text) { print_error(options.program, text); }

/// With shards there is no choice of algorithm.
std::string order_of_shards(const Options& options, const ProcessGroup& group, const std::vector<Bytes>& sizes) {
  std::string text = "# all_reduce on " + std::to_string(group.size()) + " ranks: in tree order over " +
                     std::to_string(options.trainer.step.shards) + " shards, as --shards asks, at any size\n";
  std::string line = "# size (B)";
  for (const Bytes size : sizes) line += ' ' + std::to_string(size.value);
  return text + wrapped(line, table_columns()) + '\n';
}

/// Explains the algorithm that reduces each bucket, in the order in which backward fills them.
std::string explanation(const Options& options, const ProcessGroup& group, const trainer::Trainer& trainer) {
  std::vector<Bytes> sizes = trainer.replica().data_parallel().bucket_sizes();
  if (options.trainer.step.shards > 0) return order_of_shards(options, group, sizes);
  CollectiveKind kind = CollectiveKind::all_reduce;
  if (options.trainer.zero) {
    kind = CollectiveKind::reduce_scatter_v;
    for (Bytes& size : sizes) size.value /= group.size();  // the size of a rank's part
  }
  return group.explain(kind, sizes, table_columns()) + '\n';
}

/// Shows the operators of a step, for the largest leaf. All ranks measure at once, as they train at once.
void show_step(const World& world, const Options& options, const nn::Graph& graph, ops::Ops& ops, Voice& voice) {
  const std::int64_t share = largest_leaf(options, world.size());
  const Phase phase(world.group(), "measuring the operators of a step");
  voice.phase("measuring a step");
  barrier(world.group());
  const nn::StepReport report = nn::explain_step(graph, ops, options.trainer.precision, share, options.trainer.passes);
  const std::string what = options.trainer.step.accumulate > 1 ? "micro-batch"
                           : options.trainer.step.shards > 0   ? "shard"
                                                               : "step";
  voice.print("A " + what + " of rank 0, with " + std::to_string(share) + " samples:\n" +
              to_text(report, table_columns()) + '\n');
}

/// Lets the user, and the clock, end the run or save a checkpoint.
void listen_to_user(trainer::Trainer& trainer, const Options& options, Clock::time_point begin) {
  trainer.stop_on(StopSignals::received());
  trainer.save_on(StopSignals::save_requests());
  if (options.max_seconds > 0)
    trainer.stop_at(begin +
                    std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.max_seconds)));
}

GroupOptions options_of_group(const Options& options, const DeviceChoice& device, const NodeView& node,
                              Observer* observer, std::function<void(std::string_view)> notice) {
  return {.device = device.device,
          .gpus = device.gpus,
          .algorithm = options.algorithm,
          .tuning = options.tuning,
          .wait = make_wait_policy(options.wait, node.spins_before_yield),
          .progress_thread = options.progress_thread,
          .deadline = std::chrono::duration<double>(options.timeout_seconds),
          .check = options.check,
          .observer = observer,
          .notice = std::move(notice),
          .compress = backends::parse_compression(options.compress),
          .sockets = options.sockets};
}

/// Makes the compute library of the device, which `Options::ops` is called after then.
std::unique_ptr<ops::Ops> make_ops_for(const ProcessGroup& group, const World& world, Options& options, int threads) {
  if (!group.gpu()) return make_ops(options.ops, options.precision, threads, options.exact);
  const Phase phase(world.group(), "preparing the GPU", Phase::Kind::work);
  std::unique_ptr<ops::Ops> ops;
  agree(world.group(), [&] { ops = make_cuda_ops(*group.gpu(), options.precision, group.deadline()); });
  options.ops = ops->name();
  warn_of(world, options.program, require_equal(world.group(), {{"GPU kernels by", ops->arithmetic(), true}}));
  return ops;
}

/// Starts the ranks' clocks at the same time.
void start_together(const World& world) {
  const Phase phase(world.group(), "preparing the training", Phase::Kind::work);
  barrier(world.group());
}

/// Evaluates the weights, and reports the result as a run does that has trained no step. @return the exit code
int evaluate_only(trainer::Trainer& trainer, ProcessGroup& group, std::int64_t samples, Voice& voice) {
  const Clock::time_point begin = Clock::now();
  Reporter* reporter = voice.reporter();
  const std::vector<observe::MetricValue> found = trainer.evaluate();
  if (reporter != nullptr) {
    const std::string weights = weights_sha256(trainer.replica());
    observe::EndEvent event =
        end_event(trainer, weights, std::chrono::duration<double>(Clock::now() - begin).count(), 0);
    event.best = event.last = found;
    reporter->end(event);
    reporter->print(evaluation_text(found, samples) + "weights sha256 " + weights + '\n');
  }
  group.close();
  return exit_success;
}

/// Sets the options that follow from the data, and returns the length of the run.
observe::RunLength fit_to_data(Options& options, const LoadedData& loaded) {
  const data::Dataset& train = *loaded.data.train;
  options.trainer.data_fingerprint = loaded.fingerprint;
  if (options.eval_only)  // no step is taken, so a batch that is larger than the data does no harm
    options.trainer.batch.value = std::min(options.trainer.batch.value, train.size());
  const observe::RunLength run = length_of(options.trainer, train);
  if (!options.eval_only) options.trainer.schedule.warmup_steps = warmup_of(options, run);
  return run;
}

}  // namespace

int run_session(World& world, const Options& given, const Registry& registry) {
  const Clock::time_point begin = Clock::now();
  StopSignals signals;  // before any thread that computes starts
  Options options = given;
  std::signal(SIGXFSZ, SIG_IGN);  // a limit of file sizes is an error of the write, not the end of the run
  options.trace = agreed_path(world, "--trace", given.trace);
  options.metrics = agreed_path(world, "--metrics", given.metrics);
  Voice voice(world);
  DeviceChoice device = choose_device(world, options);
  const NodeView node = show_cluster(world, options, device, voice);
  voice.phase("loading " + options.dataset);
  const LoadedData loaded = load_data(world, options, registry.datasets);
  const data::DatasetPair& data = loaded.data;
  const observe::RunLength run = fit_to_data(options, loaded);
  const nn::Graph graph = make_graph(world, options, registry.models, *data.train);
  const int threads = threads_of_this_rank(options, world, node);
  // Shards run side by side, each on one thread, because the bits of a shard depend on its number of threads.
  const bool by_shards = options.trainer.step.shards > 0;
  options.trainer.step.lanes = by_shards ? threads : 1;
  require_kernels(graph, options, device);
  options.device = name(device.device);
  if (device.device == Device::cuda && !options.bucket_given) options.trainer.bucket = bucket_on_gpus;
  const auto notice = [&options](std::string_view text) { tell_user(options, text); };
  RunFiles files = open_run_folder(world, options, notice);
  voice.phase("connecting the ranks");
  std::optional<observe::TraceRecorder> recorder;
  start_together(world);
  if (!options.trace.empty())
    recorder.emplace(observe::TraceOptions{.rank = world.rank(), .host = world.host(), .origin = Clock::now()});
  observe::TraceRecorder* observer = recorder ? &*recorder : nullptr;
  const GroupOptions group_options = options_of_group(options, device, node, observer, notice);
  auto group = std::make_unique<ProcessGroup>(world, group_options);
  const std::unique_ptr<ops::Ops> ops = make_ops_for(*group, world, options, by_shards ? 1 : threads);
  voice.phase("preparing kernels");
  const std::string kernels =
      options.kernels.empty() ? "" : use_kernel_choices(world, options, graph, *ops, by_shards ? 1 : threads);
  voice.print(header_text(options,
                          {.ranks = world.size(),
                           .threads = threads,
                           .why_cpu = device.why,
                           .steps = run.steps,
                           .kernels = kernels,
                           .emulation = emulation_of(options.precision, *ops)},
                          data, graph, table_columns()));
  voice.phase("preparing the model");
  if (Reporter* reporter = voice.reporter()) reporter->record(std::move(files.metrics), notice);
  const auto make_trainer = [&](ProcessGroup& ranks) {
    auto trainer =
        std::make_unique<trainer::Trainer>(ranks, *ops, graph, data, options.trainer, voice.listener(), observer);
    listen_to_user(*trainer, options, begin);
    if (options.save_dir != no_save_dir) trainer->save_checkpoints(checkpoint_options(options, *ops));
    return trainer;
  };
  std::unique_ptr<trainer::Trainer> trainer = make_trainer(*group);
  voice.print(memory_text(*trainer, table_columns()));
  if (!options.eval_only) voice.print(resume(*trainer, options));
  voice.print(load_weights(world, *trainer, options));
  if (options.explain && world.rank() == Rank{0}) voice.print(explanation(options, *group, *trainer));
  if (options.explain_step) show_step(world, options, graph, *ops, voice);
  report_start(world, options, *ops, run, voice);
  if (options.eval_only) return evaluate_only(*trainer, *group, data.test->size(), voice);
  signals.handle();
  Training training(options, voice, std::move(group), std::move(trainer));
  if (options.min_ranks == 0) {
    training.run();
  } else {
    const auto make_group = [&] {
      voice.begin(world);
      files = open_files(world, options);
      if (Reporter* reporter = voice.reporter()) reporter->record(std::move(files.metrics), notice);
      return std::make_unique<ProcessGroup>(world, group_options);
    };
    training.run_elastic(world, run, {.group = make_group, .trainer = make_trainer});
  }
  write_trace(world, options, files, observer, voice);
  voice.print(training.not_saved_text());
  return training.exit_code();
}

}  // namespace lockstep::train
