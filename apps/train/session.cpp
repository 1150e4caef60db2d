// SPDX-License-Identifier: Apache-2.0
#include "apps/train/session.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/exit_codes.hpp"
#include "apps/common/terminal.hpp"
#include "apps/common/version.hpp"
#include "apps/train/checksum.hpp"
#include "apps/train/kernel_choices.hpp"
#include "apps/train/reporter.hpp"
#include "data/fingerprint.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/collectives/choice/selection.hpp"
#include "lockstep/data/datasets.hpp"
#include "lockstep/nn/explain.hpp"
#include "lockstep/observe/trace.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "ops/choices.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/cluster_view.hpp"
#include "platform/mpi/phase.hpp"
#include "platform/mpi/require_equal.hpp"

namespace lockstep::train {
namespace {

int threads_of_this_rank(const Options& options, const World& world, const NodeView& node) {
  if (options.threads > 0) return options.threads;
  const auto mine = static_cast<std::size_t>(world.place().local_rank);
  const CpuSet& pus = node.bound_pus[mine];
  const auto sharing = std::count(node.bound_pus.begin(), node.bound_pus.end(), pus);
  return std::max(1, static_cast<int>(pus.size() / std::max<std::ptrdiff_t>(1, sharing)));
}

/// The files that rank 0 writes, opened before training so that a path that cannot be written is known at once.
struct Files {
  std::optional<observe::MetricsFile> metrics;
  std::optional<observe::TraceFile> trace;
};

/// Rank 0 writes the file that any rank asks for. @return its path on every rank; empty if none asks
std::string agreed_path(const World& world, const std::string& option, const std::string& mine) {
  const Phase phase(world.group(), "comparing " + option);
  const std::vector<std::string> all = all_gather_strings(world.group(), mine);
  const auto is_given = [](const std::string& path) { return !path.empty(); };
  const auto first = std::find_if(all.begin(), all.end(), is_given);
  if (first == all.end()) return {};
  const auto other =
      std::find_if(first, all.end(), [&](const std::string& path) { return is_given(path) && path != *first; });
  if (other == all.end()) return *first;
  const auto named = [&](auto place) {
    const Rank rank{static_cast<int>(place - all.begin())};
    return "rank " + std::to_string(rank.value) + " on " + world.group().host_of(rank) + " has " + option + ' ' +
           *place;
  };
  throw Error(ErrorCode::mismatch, named(other) + ", but " + named(first) + ": rank 0 writes one file for all ranks",
              {.peers = {static_cast<int>(other - all.begin())}})
      .on_every_rank();
}

Files open_files(const World& world, const Options& options) {
  Files files;
  const Phase phase(world.group(), "opening the files to write", Phase::Kind::work);
  agree_on_rank_zero(world.group(), [&] {
    if (!options.metrics.empty()) files.metrics.emplace(options.metrics);
    if (!options.trace.empty()) files.trace.emplace(options.trace);
  });
  return files;
}

observe::StartEvent start_event(const World& world, const Options& options, const ops::Ops& ops) {
  return {.version = commit(),
          .model = options.model,
          .dataset = options.dataset,
          .algorithm = std::string(name(options.method)),
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

std::string weights_sha256(const trainer::Replica& replica) {
  return sha256(replica.data_parallel().layout(), replica.data_parallel().values());
}

observe::EndEvent end_event(const trainer::Trainer::Result& result, const Options& options,
                            const trainer::Replica& replica, const std::string& weights, double seconds) {
  observe::EndEvent event{.outcome = result.epochs == options.trainer.epochs ? "completed" : "stopped",
                          .epochs = result.epochs,
                          .seconds = seconds,
                          .skipped_updates = result.skipped,
                          .optimizer_bytes = replica.optimizer_bytes().value,
                          .weights_sha256 = weights};
  if (result.evaluation) {
    event.best_accuracy = result.best_accuracy;
    event.final_accuracy = result.evaluation->accuracy;
  }
  return event;
}

void print_header(const Options& options, const World& world, int threads, const data::DatasetPair& data,
                  const ops::Ops& ops, const std::string& kernels) {
  std::printf("%s on %s (%lld training and %lld test samples, %lld classes), %d rank%s of %d thread%s\n",
              options.model.c_str(), options.dataset.c_str(), static_cast<long long>(data.train->size()),
              static_cast<long long>(data.test->size()), static_cast<long long>(data.train->classes()), world.size(),
              world.size() == 1 ? "" : "s", threads, threads == 1 ? "" : "s");
  const std::string how = options.trainer.shards > 0
                              ? "tree-order over " + std::to_string(options.trainer.shards) + " shards"
                              : std::string(name(options.method));
  const std::string emulation = emulation_of(options.precision, ops);
  std::printf("batch %lld in all, peak learning rate %g, seed %llu, %s in %s%s%s%s, gradients %s by %s%s%s%s\n%s\n",
              static_cast<long long>(options.trainer.batch.value), options.trainer.schedule.peak,
              static_cast<unsigned long long>(options.trainer.seed), options.ops.c_str(),
              std::string(options.precision.name).c_str(), emulation.empty() ? "" : " (emulated ", emulation.c_str(),
              emulation.empty() ? "" : ")",
              options.trainer.zero && options.trainer.shards == 0 ? "reduce-scattered" : "all-reduced", how.c_str(),
              backends::selection_of(options.method) == nullptr ? " (the MPI library's own)" : " (lockstep's own)",
              options.compress == "none" ? "" : ", on the wire in ",
              options.compress == "none" ? "" : options.compress.c_str(), kernels.c_str());
  std::fflush(stdout);
}

void write_trace(const World& world, const Options& options, Files& files, const observe::TraceRecorder* recorder) {
  if (recorder == nullptr) return;
  const Phase phase(world.group(), "writing the trace '" + options.trace + "'", Phase::Kind::work);
  const std::vector<std::string> events = gather_strings(world.group(), recorder->events_json(), {0});
  agree(world.group(), [&] {
    if (files.trace) files.trace->write(events);
  });
  if (world.rank() == Rank{0}) std::printf("trace: %s\n", options.trace.c_str());
}

void print_summary(const Options& options, const trainer::Trainer& trainer, const trainer::Trainer::Result& result,
                   double seconds, bool lost_metrics) {
  std::printf("\n%lld steps in %.1f s, %.1f %% of it waiting for gradients", static_cast<long long>(result.steps),
              seconds, 100 * trainer.replica().data_parallel().exposed_seconds() / seconds);
  if (result.evaluation) {
    std::printf("; test accuracy %.2f %%, best %.2f %%", 100 * result.evaluation->accuracy, 100 * result.best_accuracy);
  }
  if (result.skipped > 0) std::printf("; %lld updates skipped", static_cast<long long>(result.skipped));
  std::printf("\n%.1f MiB of optimizer state on each rank\n",
              static_cast<double>(trainer.replica().optimizer_bytes().value) / (1 << 20));
  if (!options.metrics.empty())
    std::printf("metrics: %s%s\n", options.metrics.c_str(), lost_metrics ? " (incomplete)" : "");
}

/// Prints who runs where. @return this rank's node
NodeView show_cluster(const World& world, const Options& options) {
  const Phase phase(world.group(), "showing the cluster");
  const Topology topology = discover_topology();
  NodeView node = gather_node(world, topology, std::max(1, options.threads));
  const auto cluster = gather_cluster(world, topology, node);
  if (cluster) std::fputs((format_table(*cluster) + "\n").c_str(), stdout);
  return node;
}

/// "'mnist' from 'DIR'", which may be another folder on each rank.
std::string name_of_data(const World& world, const Options& options) {
  const Phase phase(world.group(), "comparing --data-dir");
  const std::vector<std::string> all = all_gather_strings(world.group(), options.data_dir);
  const bool differ = std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) != all.end();
  const std::string folder = differ ? " from its --data-dir" : " from '" + options.data_dir + "'";
  return "'" + options.dataset + "'" + (all.front().empty() && !differ ? "" : folder);
}

/// What all ranks must have alike of a part of the data set. Data that are drawn follow from the seed, and take longer
/// to read than files in memory, so a few samples stand for them.
void describe_part(const data::Dataset& part, const std::string& name, bool is_read, std::vector<Setting>& settings) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 30;
  std::int64_t sample_bytes = 1;
  for (const TensorSpec& tensor : part.tensors()) sample_bytes += 4 * tensor.elements();
  settings.push_back({name + " samples", std::to_string(part.size())});
  settings.push_back({name + " classes", std::to_string(part.classes())});
  const std::int64_t most = is_read ? std::max<std::int64_t>(1, most_bytes / sample_bytes) : 64;
  for (const auto& [tensor, hash] : data::fingerprint(part, most)) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
    settings.push_back({name + ' ' + tensor + " with hash", digits});
  }
}

/// @throws on every rank Error{mismatch} that names the ranks whose data differ, and what of it
void require_equal_data(const World& world, const data::DatasetPair& data, bool is_read) {
  if (world.size() == 1) return;
  std::vector<Setting> settings;
  agree(world.group(), [&] {
    describe_part(*data.train, "training", is_read, settings);
    describe_part(*data.test, "test", is_read, settings);
  });
  try {
    require_equal(world.group(), settings);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::mismatch) throw;
    throw Error(ErrorCode::mismatch, error.message() + "; give all ranks the same files (--data-dir)", error.context())
        .on_every_rank();
  }
}

data::DatasetPair load_data(const World& world, const Options& options, const data::Datasets& datasets) {
  data::DatasetPair data;
  const Phase phase(world.group(), "loading the data set " + name_of_data(world, options), Phase::Kind::work);
  agree(world.group(),
        [&] { data = datasets.load(options.dataset, {.data_dir = options.data_dir, .seed = options.trainer.seed}); });
  require_equal_data(world, data, datasets.directory(options.dataset) == data::Directory::required);
  return data;
}

nn::Graph make_graph(const World& world, const Options& options, const nn::Models& models, const data::Dataset& train) {
  std::optional<nn::Graph> graph;
  const Phase phase(world.group(), "making the model '" + options.model + "'", Phase::Kind::work);
  agree(world.group(), [&] {
    graph = models.make(options.model, {train.tensors(), train.classes()});
    graph->check();
  });
  return *std::move(graph);
}

/// What the library has to say: on standard error, since the other stream is the run's own.
void tell_user(const Options& options, std::string_view text) {
  std::fprintf(stderr, "%s: %.*s\n", options.program.c_str(), static_cast<int>(text.size()), text.data());
}

/// For rank 0; the other ranks report nothing.
std::optional<Reporter> make_reporter(const World& world, const Options& options, const data::Dataset& train,
                                      const ops::Ops& ops, std::optional<observe::MetricsFile> metrics) {
  if (world.rank() != Rank{0}) return std::nullopt;
  const std::int64_t batch = options.trainer.batch.value;
  std::optional<Reporter> reporter(
      std::in_place,
      observe::ProgressDisplay(std::cout, {.epochs = options.trainer.epochs,
                                           .steps_per_epoch = (train.size() + batch - 1) / batch,
                                           .images_per_epoch = {train.size()},
                                           .terminal = shows_on_terminal()}),
      std::move(metrics), [&options](std::string_view text) { tell_user(options, text); });
  reporter->write(start_event(world, options, ops));
  return reporter;
}

/// With shards nothing is chosen.
void print_order_of_shards(const Options& options, const ProcessGroup& group, const std::vector<Bytes>& sizes) {
  std::printf("# all_reduce on %d ranks: in tree order over %d shards, as --shards asks, at any size\n# size (B)",
              group.size(), options.trainer.shards);
  for (const Bytes size : sizes) std::printf(" %lld", static_cast<long long>(size.value));
  std::printf("\n\n");
  std::fflush(stdout);
}

/// By what each bucket is reduced, in the order in which backward fills them.
void print_explanation(const Options& options, const ProcessGroup& group, const trainer::Trainer& trainer) {
  std::vector<Bytes> sizes = trainer.replica().data_parallel().bucket_sizes();
  if (options.trainer.shards > 0) return print_order_of_shards(options, group, sizes);
  CollectiveKind kind = CollectiveKind::all_reduce;
  if (options.trainer.zero) {
    kind = CollectiveKind::reduce_scatter_v;
    for (Bytes& size : sizes) size.value /= group.size();  // of a rank's part
  }
  std::fputs((explain(*group.selection(), kind, sizes, options.tuning) + '\n').c_str(), stdout);
  std::fflush(stdout);
}

/// The operators of a step of the largest share, or of its largest shard or micro-batch. All ranks measure at once, as
/// they train at once.
void print_step(const World& world, const Options& options, const nn::Graph& graph, ops::Ops& ops) {
  const std::int64_t share = largest_leaf(options, world.size());
  const Phase phase(world.group(), "measuring the operators of a step");
  barrier(world.group());
  const nn::StepReport report = nn::explain_step(graph, ops, options.trainer.precision, share, options.trainer.passes);
  if (world.rank() != Rank{0}) return;
  std::printf("A %s of rank 0, with %lld samples:\n%s\n",
              options.trainer.accumulate > 1 ? "micro-batch"
              : options.trainer.shards > 0   ? "shard"
                                             : "step",
              static_cast<long long>(share), to_text(report).c_str());
  std::fflush(stdout);
}

/// For an error that all ranks throw: who leaves first is not taken for a rank at fault by one that has yet to hear of
/// it.
void close_in_order(ProcessGroup& group) {
  try {
    group.close();
  } catch (const Error&) {  // the one under way says more
  }
}

/// The ranks' clocks start at the same time.
void start_together(const World& world) {
  const Phase phase(world.group(), "preparing the training", Phase::Kind::work);
  barrier(world.group());
}

/// Trains to the end; the end is recorded also where it is an error. @return on rank 0 the weights' SHA-256
std::string run_to_end(trainer::Trainer& trainer, ProcessGroup& group, Reporter* reporter, const Options& options) {
  const Clock::time_point begin = Clock::now();
  const auto seconds = [begin] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  try {
    const trainer::Trainer::Result result = trainer.run();
    if (reporter == nullptr) return {};
    std::string weights = weights_sha256(trainer.replica());
    reporter->write(end_event(result, options, trainer.replica(), weights, seconds()));
    print_summary(options, trainer, result, seconds(), reporter->lost_metrics());
    return weights;
  } catch (const Error& error) {
    if (reporter != nullptr) {
      reporter->write(observe::EndEvent{
          .outcome = "failed", .seconds = seconds(), .optimizer_bytes = trainer.replica().optimizer_bytes().value});
    }
    if (error.is_on_every_rank()) close_in_order(group);
    throw;
  }
}

}  // namespace

int run_session(World& world, const Options& asked, const Registry& registry) {
  Options options = asked;
  options.trace = agreed_path(world, "--trace", asked.trace);
  options.metrics = agreed_path(world, "--metrics", asked.metrics);
  const NodeView node = show_cluster(world, options);
  const data::DatasetPair data = load_data(world, options, registry.datasets);
  const nn::Graph graph = make_graph(world, options, registry.models, *data.train);
  const int threads = threads_of_this_rank(options, world, node);
  // Shards are taken side by side, each by one thread: what several make of one depends on their number.
  const bool by_shards = options.trainer.shards > 0;
  const auto ops = in_precision(options.ops == "onednn" ? ops::make_onednn_ops(by_shards ? 1 : threads, options.exact)
                                                        : ops::make_reference_ops(),
                                options.precision);
  const std::string kernels =
      options.kernels.empty() ? "" : use_kernel_choices(world, options, graph, *ops, by_shards ? 1 : threads);
  trainer::TrainerOptions trainer_options = options.trainer;
  trainer_options.lanes = by_shards ? threads : 1;
  Files files = open_files(world, options);

  std::optional<observe::TraceRecorder> recorder;
  start_together(world);
  if (!options.trace.empty()) {
    recorder.emplace(observe::TraceOptions{.rank = world.rank(), .host = world.host(), .origin = Clock::now()});
  }
  observe::TraceRecorder* observer = recorder ? &*recorder : nullptr;
  ProcessGroup group(world, {.method = options.method,
                             .tuning = options.tuning,
                             .wait = make_wait_policy(options.wait, node.spins_before_yield),
                             .progress_thread = options.progress_thread,
                             .deadline = std::chrono::duration<double>(options.timeout_seconds),
                             .check = options.check,
                             .observer = observer,
                             .notice = [&options](std::string_view text) { tell_user(options, text); },
                             .compress = backends::parse_compression(options.compress)});
  if (world.rank() == Rank{0}) print_header(options, world, threads, data, *ops, kernels);
  std::optional<Reporter> reporter = make_reporter(world, options, *data.train, *ops, std::move(files.metrics));
  Reporter* listener = reporter ? &*reporter : nullptr;
  trainer::Trainer trainer(group, *ops, graph, data, trainer_options, listener, observer);
  if (options.explain && world.rank() == Rank{0}) print_explanation(options, group, trainer);
  if (options.explain_step) print_step(world, options, graph, *ops);
  const std::string weights = run_to_end(trainer, group, listener, options);
  group.close();
  write_trace(world, options, files, observer);
  if (world.rank() == Rank{0}) std::printf("weights sha256 %s\n", weights.c_str());
  return exit_success;
}

}  // namespace lockstep::train
