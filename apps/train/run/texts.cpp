// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run/texts.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "apps/cli/terminal.hpp"
#include "base/nearest.hpp"
#include "base/wrapped.hpp"
#include "lockstep/nn/explain.hpp"
#include "lockstep/ops/operators.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "trainer/replica/replica.hpp"

namespace lockstep::train {
namespace {

std::string count_of(long long number, const char* thing) {
  return std::to_string(number) + ' ' + thing + (number == 1 ? "" : "s");
}

std::string gradients_text(const RunContext& run) {
  const Options& options = run.options;
  const bool by_shards = options.trainer.step.shards > 0;
  std::string text =
      options.trainer.zero && !by_shards ? "gradients reduce-scattered by " : "gradients all-reduced by ";
  text += by_shards ? "tree-order over " + std::to_string(options.trainer.step.shards) + " shards" : options.algorithm;
  const bool by_nccl = run.model.device.device == Device::cuda && options.algorithm != "tree-order" && !by_shards;
  text += by_nccl ? " (NCCL's own)" : options.algorithm == "mpi" ? " (the MPI library's own)" : " (lockstep's own)";
  text += options.compress == "none" ? "" : ", on the wire in " + options.compress;
  return text + (has_progress_thread(run) ? ", progressed by a thread" : "");
}

/// Returns the global batch, and what a rank gets of it.
std::string batch_text(const Options& options, const Data& data, int ranks) {
  const std::int64_t batch = data.batch.value;
  const int shards = options.trainer.step.shards > 0 ? options.trainer.step.shards : ranks;
  const bool is_even = batch % shards == 0 && shards % ranks == 0 && !options.trainer.balance;
  const std::string text = "global batch " + std::to_string(batch) + (is_even ? ", " : ", about ") +
                           std::to_string(batch / ranks) + " on each rank";
  const std::int64_t left_out = options.trainer.drop_last ? data.sets.train->size() % batch : 0;
  return text + (left_out == 0 ? "" : " (each epoch leaves out " + count_of(left_out, "sample") + ')');
}

/// Says how --lr-scaling has changed the learning rate; empty if it has not.
std::string scaling_text(const Options& options, const Data& data) {
  if (options.lr_scaling == "none") return "";
  const bool by_batch = options.lr_scaling == "linear" || options.lr_scaling == "sqrt";
  const double peak = options.trainer.schedule.peak;
  return format_text("the peak is --lr %g times %g, as --lr-scaling ", peak, data.schedule.peak / peak) +
         options.lr_scaling + " asks" +
         (by_batch ? " for a batch of " + std::to_string(data.batch.value) + " instead of " +
                         std::to_string(options.base_batch)
                   : "");
}

/// Returns a line about batch norm; empty if there is neither a batch norm nor an option about it.
std::string batch_norm_text(const Options& options, const nn::Graph& graph) {
  const auto& nodes = graph.nodes();
  const bool has_one =
      std::ranges::any_of(nodes, [](const nn::Node& node) { return std::holds_alternative<ops::BatchNorm>(node.op); });
  const bool synchronized = options.trainer.sync_batch_norm;
  if (!has_one) return synchronized ? "--sync-bn changes nothing: the model has no batch norm" : "";
  if (synchronized) return "batch norm synchronized: over all samples of a step (--sync-bn)";
  return std::string("batch norm over each ") + (options.trainer.step.shards > 0 ? "shard" : "rank") +
         "'s own samples of a step";
}

/// A warning where the moving average still holds much of the initial weights at the end of the run; else empty.
std::string ema_text(double decay, double ramp, std::int64_t steps) {
  double initial = decay > 0 ? std::pow(decay, static_cast<double>(steps)) : 0;
  if (ramp > 0) {
    initial = 1;
    for (std::int64_t update = 1; update <= steps && initial >= 0.05; ++update)
      initial *= decay * (1 - std::exp(-static_cast<double>(update) / ramp));
  }
  if (initial < 0.05) return "";
  return format_text("--ema %g is too slow for a run of %s: ", decay, count_of(steps, "step").c_str()) +
         format_text("at its end, the initial weights still make up %.0f %% of the average that is evaluated; ",
                     100 * initial) +
         "lower --ema, or train for longer";
}

/// Says how steps are added up for an update; empty if each step makes one.
std::string nominal_batch_text(const Options& options, const Data& data) {
  const std::int64_t nominal = options.trainer.nominal_batch;
  if (nominal == 0) return "";
  const nn::AccumulationSchedule schedule{
      .nominal_batch = nominal, .batch = data.batch.value, .warmup_steps = data.schedule.warmup_steps};
  const std::int64_t steps = schedule.most_steps();
  const auto of_update = static_cast<double>(steps * data.batch.value);
  return "weights are updated after " + count_of(steps, "step") + (steps > 1 ? ", fewer in the warm-up" : "") +
         format_text(" (--nominal-batch %lld), with a weight decay of %g", static_cast<long long>(nominal),
                     options.trainer.optimizer.weight_decay * of_update / static_cast<double>(nominal));
}

/// The results of the last evaluation, with its step if the weights have changed since.
std::string results_text(const trainer::Trainer& trainer) {
  const trainer::RunState& run = trainer.state();
  const bool is_of_these_weights = run.evaluated_step == run.global_step;
  const std::string step = run.evaluated_step > 0 ? "after step " + std::to_string(run.evaluated_step) : "earlier";
  std::string text;
  for (std::size_t i = 0; i < run.evaluation.size(); ++i) {
    const observe::MetricValue& metric = run.evaluation[i];
    if (!metric.value) continue;
    text += "test " + metric.name + ' ' + (is_of_these_weights ? "" : step + ": ") + metric.text() + ", best " +
            run.best[i].text() + '\n';
  }
  return text.empty() || is_of_these_weights ? text : text + "the last weights were not evaluated\n";
}

/// Describes the memory of plans where steps have several sizes; else empty.
std::string plans_text(const trainer::Replica& replica, std::size_t columns) {
  const std::size_t sizes = replica.extents().size();
  if (sizes == 1) return "";
  const auto& [kept, plans] = replica.prepared_extents();
  return wrapped("plans of steps of " + std::to_string(sizes) +
                     " sizes: " + mib_text(replica.model().memory_use().activations) +
                     " of activations, which all share, " + mib_text(plans) + " of kernels and lists" +
                     (kept < sizes ? "; those of the " + std::to_string(kept) +
                                         " sizes that were used last are kept, for want of memory"
                                   : ""),
                 columns) +
         "\n";
}

/// With shards there is no choice of algorithm.
std::string order_of_shards(const Options& options, const ProcessGroup& group, const std::vector<Bytes>& sizes) {
  std::string text = "# all_reduce on " + std::to_string(group.size()) + " ranks: in tree order over " +
                     std::to_string(options.trainer.step.shards) + " shards, as --shards asks, at any size\n";
  std::string line = "# size (B)";
  for (const Bytes size : sizes) line += ' ' + std::to_string(size.value);
  return text + wrapped(line, cli::table_columns()) + '\n';
}

void require_success(int result) {
  if (result != 1) throw Error(ErrorCode::unsupported, "OpenSSL computes no SHA-256 here");
}

}  // namespace

std::string header_text(const RunContext& run, const Computation& computation, std::size_t columns) {
  const Options& options = run.options;
  const Data& data = run.data;
  const int ranks = run.cluster.world.size();
  const std::string emulation = emulation_of(options.precision, *computation.ops);
  const std::string& why_cpu = run.model.device.why;
  const std::string arithmetic = computation.library + " in " + std::string(options.precision.name) +
                                 (emulation.empty() ? "" : " (emulated " + emulation + ")");
  const bool is_prediction = !options.predict.empty();  // nothing is trained
  const auto of_training = [&](const std::string& line) { return is_prediction ? std::string() : line; };
  const std::string samples = is_prediction ? count_of(data.sets.test->size(), "picture") + " to predict, "
                                            : std::to_string(data.sets.train->size()) + " training and " +
                                                  std::to_string(data.sets.test->size()) + " test samples, ";
  const std::string lines[] = {
      options.model + " on " + echo(name_of_data(options), 400) + " (" + samples +
          std::to_string(data.sets.train->classes()) + " classes), " + count_of(ranks, "rank") + " of " +
          count_of(run.cluster.threads, "thread"),
      is_prediction
          ? arithmetic
          : batch_text(options, data, ranks) + ", seed " + std::to_string(options.trainer.seed) + ", " + arithmetic,
      data.pictures                           ? "pictures of " + input_text(*data.pictures)
      : options.augmentation.changes_images() ? "training images augmented by " + options.augmentation.text()
                                              : "",
      of_training(gradients_text(run)),
      options.trainer.balance ? "shards move from slow ranks to fast ones (--balance)" : "",
      of_training(std::string(nn::name(options.trainer.optimizer.rule)) + ", learning rate " +
                  to_text(data.schedule, data.length.steps)),
      of_training(scaling_text(options, data)),
      of_training(batch_norm_text(options, run.model.graph)),
      of_training(data.anchors.text),
      of_training(nominal_batch_text(options, data)),
      of_training(ema_text(options.trainer.step.ema, options.trainer.step.ema_ramp, data.length.steps)),
      computation.kernels,
      why_cpu.empty() ? "" : "on CPUs: " + why_cpu,
      options.options_file.empty() ? "" : "options that are not given are those of " + options.options_file};
  std::string text;
  for (const std::string& line : lines) text += line.empty() ? "" : wrapped(line, columns);
  return text + '\n';
}

std::string memory_text(const trainer::Trainer& trainer, std::size_t columns) {
  const nn::Model& model = trainer.replica().model();
  const auto memory = model.device().memory();
  std::string plans = plans_text(trainer.replica(), columns);
  if (!memory) return plans;
  const nn::Model::MemoryUse use = model.memory_use();
  const nn::Model::Memory tensors = trainer.replica().store().memory();
  Bytes bytes{tensors.parameters.bytes() + tensors.gradients.bytes() + tensors.state.bytes() +
              tensors.averages.bytes() + tensors.gradient_sums.bytes()};
  for (const Buffer& state : tensors.optimizer_state) bytes += state.bytes();
  return wrapped("GPU memory: " + mib_text(bytes) + " of weights, gradients and optimizer state, " +
                     mib_text(use.activations) + " of activations, " + mib_text(use.inputs) + " of inputs; " +
                     mib_text(memory->free) + " of " + mib_text(memory->total) + " are free",
                 columns) +
         "\n" + plans;
}

std::string evaluation_text(std::vector<observe::MetricValue> values, std::int64_t samples) {
  std::stable_partition(values.begin(), values.end(), [](const auto& value) { return value.is_fraction; });
  std::string text = "test";
  for (const observe::MetricValue& value : values) text += " " + value.name + " " + value.text() + ",";
  return text + " over " + count_of(samples, "sample") + '\n';
}

std::string summary_text(const RunContext& context, const trainer::Trainer& trainer, const Effort& effort) {
  const trainer::TrainerOptions& options = context.options.trainer;
  const trainer::RunState& run = trainer.state();
  std::string text = "\n";
  if (run.stopped_by != 0) {
    const bool by_time = run.stopped_by == trainer::stopped_by_time;
    text += "stopped by " + (by_time ? "--max-time" : signal_name(run.stopped_by)) + " after " +
            std::to_string(run.global_step) + " of " + count_of(trainer.total_steps(), "step") + ", " +
            std::to_string(trainer.completed_epochs()) + " of " + count_of(options.epochs, "epoch") + " completed\n";
  }
  const trainer::EarlyStop& stop = options.early_stop;
  if (run.stopped_by == 0 && trainer.stops_early()) {
    text += "ended by --early-stop after " + std::to_string(trainer.completed_epochs()) + " of " +
            count_of(options.epochs, "epoch") + ": " + stop.metric + " has not become better in " +
            count_of(stop.patience, "evaluation") + '\n';
  }
  text += format_text("%s in %.1f s, %.1f %% of it waiting for gradients", count_of(effort.steps, "step").c_str(),
                      effort.seconds, 100 * trainer.replica().data_parallel().exposed_seconds() / effort.seconds);
  if (effort.steps != run.global_step)
    text += ", after " + count_of(run.global_step - effort.steps, "step") + " before";
  if (run.global_step > 0) text += format_text("; last loss %.4f", run.last_loss);
  if (run.skipped > 0) text += format_text("; %lld updates skipped", static_cast<long long>(run.skipped));
  if (effort.recoveries > 0) text += "; went on without ranks that had died " + count_of(effort.recoveries, "time");
  text += '\n';
  text += results_text(trainer);
  text += format_text("%.1f MiB of optimizer state on each rank\n",
                      static_cast<double>(trainer.replica().store().optimizer_bytes().value) / (1 << 20));
  const std::string& metrics = context.folder.metrics;
  if (metrics.empty()) return text;
  return text + "metrics: " + metrics + (effort.lost_metrics ? " (incomplete)\n" : "\n");
}

std::string explanation(const Options& options, const ProcessGroup& group, const trainer::Trainer& trainer) {
  std::vector<Bytes> sizes = trainer.replica().data_parallel().bucket_sizes();
  if (options.trainer.step.shards > 0) return order_of_shards(options, group, sizes);
  CollectiveKind kind = CollectiveKind::all_reduce;
  if (options.trainer.zero) {
    kind = CollectiveKind::reduce_scatter_v;
    for (Bytes& size : sizes) size.value /= group.size();  // the size of a rank's part
  }
  return group.explain(kind, sizes, cli::table_columns()) + '\n';
}

void show_step(const RunContext& run, ops::Ops& ops) {
  const World& world = run.cluster.world;
  const trainer::TrainerOptions& options = run.options.trainer;
  const std::int64_t samples = largest_leaf(run.options, run.data.batch, world.size());
  const Phase phase(world.group(), "measuring the operators of a step");
  run.console.phase("measuring a step");
  barrier(world.group());
  const nn::StepReport report = nn::explain_step(run.model.graph, ops, options.precision, samples, options.passes);
  const std::string what = options.step.accumulate > 1 ? "micro-batch" : options.step.shards > 0 ? "shard" : "step";
  run.console.print("A " + what + " of rank 0, with " + std::to_string(samples) + " samples:\n" +
                    to_text(report, cli::table_columns()) + '\n');
}

std::string sha256(const Layout& layout, const Buffer& flat) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> digest(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  require_success(EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr));
  for (const TensorSlot& slot : layout.tensors()) {
    const Buffer tensor = slice(flat, slot.offset, slot.count);
    require_success(EVP_DigestUpdate(digest.get(), tensor.data, static_cast<std::size_t>(tensor.bytes().value)));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned length = 0;
  require_success(EVP_DigestFinal_ex(digest.get(), bytes.data(), &length));
  std::string text;
  for (std::size_t i = 0; i < length; ++i) text += format_text("%02x", bytes[i]);
  return text;
}

}  // namespace lockstep::train
