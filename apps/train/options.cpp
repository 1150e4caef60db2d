// SPDX-License-Identifier: Apache-2.0
#include "apps/train/options.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/common/help.hpp"
#include "apps/common/same_options.hpp"
#include "apps/train/option_rows.hpp"
#include "lockstep/backends/compressed.hpp"

namespace lockstep::train {
namespace {

/// Sets the defaults that depend on the model and the precision.
void set_defaults(OptionValues& given, const nn::Defaults& model, const Precision& precision) {
  given.default_to("epochs", model.epochs);
  given.default_to("batch", model.batch);
  given.default_to("lr", model.learning_rate);
  given.default_to("warmup", model.warmup_epochs);
  given.default_to("momentum", model.momentum);
  given.default_to("nesterov", model.nesterov);
  given.default_to("weight-decay", model.weight_decay);
  given.default_to("loss-scale", precision.loss_scale);
  given.default_to("ops", std::string(precision.reals == DType::float64 ? "reference" : "onednn"));
}

trainer::TrainerOptions trainer_options(const OptionValues& given, const nn::Defaults& defaults,
                                        const Precision& precision) {
  trainer::TrainerOptions options;
  options.precision = precision.reals;
  options.epochs = given.get<std::int64_t>("epochs");
  options.steps = given.get<std::int64_t>("steps");
  options.batch = {given.get<std::int64_t>("batch")};
  options.schedule = {.peak = given.get<double>("lr"), .decay = defaults.decay};
  options.sgd = {.momentum = given.get<double>("momentum"),
                 .nesterov = given.get<bool>("nesterov"),
                 .weight_decay = given.get<double>("weight-decay"),
                 .decay_vectors = given.get<bool>("decay-vectors"),
                 .frozen = words_of(given.get<std::string>("freeze"))};
  options.shards = given.get<int>("shards");
  options.sync_batch_norm = given.get<bool>("sync-bn");
  options.accumulate = given.get<int>("accumulate");
  options.clip_norm = given.get<double>("clip-norm");
  options.ema = given.get<double>("ema");
  options.zero = given.get<bool>("zero");
  options.loss_scale.initial = given.get<double>("loss-scale");
  for (const std::string& pass : words_of(given.get<std::string>("without-pass"))) options.passes.leave_out(pass);
  options.seed = static_cast<std::uint64_t>(given.get<std::int64_t>("seed"));
  options.initial = given.get<std::string>("initial") == "compare" ? InitialValues::compare : InitialValues::broadcast;
  options.workers = given.get<int>("workers");
  options.bucket = {std::max<std::int64_t>(1, std::llround(given.get<double>("bucket-mb") * 1024 * 1024))};
  options.compare_every = given.get<std::int64_t>("compare-every");
  options.log_every = given.get<std::int64_t>("log-every");
  options.eval_interval = given.get<std::int64_t>("eval-interval");
  return options;
}

/// Rejects options with which the bits would depend on the number of ranks.
void refuse_beside_shards(const Options& options, const collectives::Selection* selection) {
  const std::string shards = "--shards " + std::to_string(options.trainer.shards);
  const std::string algorithm(name(options.method));
  if (selection == nullptr || (selection->forced && !is_canonical(*selection))) {
    throw UsageError(shards + " with --algorithm " + algorithm +
                     ": it adds in an order of its own; leave it out, or choose --algorithm auto");
  }
  if (options.compress != "none") {
    throw UsageError(shards + " with --compress " + options.compress +
                     ": how often a sum is rounded on the wire depends on the number of ranks");
  }
}

/// Rejects shards or micro-batches without samples, which would cost time for nothing.
void refuse_more_parts_than_samples(const trainer::TrainerOptions& options) {
  for (const auto& [name, parts] :
       {std::pair("--shards ", options.shards), std::pair("--accumulate ", options.accumulate)}) {
    if (parts <= options.batch.value) continue;
    throw UsageError(name + std::to_string(parts) + " cuts a --batch of " + std::to_string(options.batch.value) +
                     " into parts without samples; take at most that many, or a larger --batch");
  }
}

/// Rejects combinations of options that are valid only one by one.
void refuse_contradictions(const OptionValues& given, const Options& options, data::Directory directory) {
  if (options.ops == "onednn" && options.trainer.precision == DType::float64) {
    throw UsageError("--ops onednn does not compute in float64: leave it out, or choose --precision float32");
  }
  if (options.compress != "none" && options.trainer.precision == DType::float64) {
    throw UsageError("--compress " + options.compress + " is for float32: gradients in float64 would go uncompressed");
  }
  if (!options.kernels.empty() && (options.exact || options.ops == "reference")) {
    throw UsageError(std::string("--kernels has no meaning with --") + (options.exact ? "exact" : "ops reference") +
                     ", which leaves one way to compute each operator: leave one of the two out");
  }
  const std::string algorithm(name(options.method));
  const collectives::Selection* selection = backends::selection_of(options.method);
  if (options.compress != "none" && selection != nullptr && is_canonical(*selection)) {
    throw UsageError("--compress " + options.compress + " with --algorithm " + algorithm +
                     ": how often a sum is rounded on the wire depends on the number of ranks, and so would the bits, "
                     "which it keeps the same");
  }
  refuse_more_parts_than_samples(options.trainer);
  if (options.trainer.shards > 0) refuse_beside_shards(options, selection);
  if (options.trainer.zero && selection != nullptr && is_canonical(*selection)) {
    throw UsageError("--zero with --algorithm " + algorithm +
                     ": a reduce-scatter adds in an order that depends on the number of ranks, and so would the bits, "
                     "which that algorithm keeps the same");
  }
  if (options.trainer.sgd.nesterov && options.trainer.sgd.momentum == 0) {
    throw UsageError("--nesterov needs a momentum above 0");
  }
  if (given.has("data-dir") && directory == data::Directory::none) {
    throw UsageError("--data-dir has no meaning with --dataset " + options.dataset +
                     ", which the program draws by itself; did you mean --dataset mnist or cifar10?");
  }
  if (!given.has("data-dir") && directory == data::Directory::required) {
    throw UsageError("--dataset " + options.dataset + " needs --data-dir, the folder with its files");
  }
  if (given.has("tuning") && (selection == nullptr || selection->forced)) {
    throw UsageError("--tuning has no meaning with --algorithm " + algorithm + "; did you mean --algorithm auto?");
  }
  if (options.explain && selection == nullptr) {
    throw UsageError("--explain has no meaning with --algorithm mpi: how the MPI library chooses is not known here");
  }
  if (options.device == "cuda") {
    throw UsageError(
        "--device cuda: the trainer's own operators for GPUs come later. What can be had on GPUs today: ProcessGroup "
        "and "
        "DataParallel with Device::cuda, for a program with layers of its own, and comm-bench --device cuda");
  }
}

Options checked(OptionValues given, const Registry& registry) {
  const auto text = [&](const char* name) { return given.get<std::string>(name); };
  Options options;
  options.dataset = text("dataset");
  options.data_dir = text("data-dir");
  options.model = text("model");
  options.precision = precision_of(text("precision"));
  const nn::Defaults defaults = registry.models.defaults(options.model);
  set_defaults(given, defaults, options.precision);
  options.compress = text("compress");
  options.method = backends::parse_method(text("algorithm"));
  options.tuning = text("tuning");
  options.explain = given.get<bool>("explain");
  options.explain_step = given.get<bool>("explain-step");
  options.progress_thread = given.get<bool>("progress-thread");
  options.wait = text("wait");
  options.check = given.get<bool>("check");
  options.device = text("device");
  options.ops = text("ops");
  options.exact = given.get<bool>("exact");
  options.kernels = text("kernels");
  options.timeout_seconds = given.get<double>("timeout");
  options.threads = given.get<int>("threads");
  options.metrics = text("metrics");
  options.trace = text("trace");
  options.trainer = trainer_options(given, defaults, options.precision);
  options.warmup_epochs = given.get<double>("warmup");
  options.warmup_given = given.has("warmup");
  refuse_contradictions(given, options, registry.datasets.directory(options.dataset));
  options.settings = settings_to_compare(given);
  return options;
}

}  // namespace

CommandLine parse_options(int argc, char** argv, const Registry& registry) {
  const Program program = describe_train(std::string(program_name(argc, argv)), registry);
  const OptionValues values = read_command_line(argc, argv, program);
  const std::string to_print = requested_text(values, program);
  if (!to_print.empty()) return {{}, to_print};
  CommandLine command_line{checked(values, registry), {}};
  command_line.options.program = program.name;
  return command_line;
}

}  // namespace lockstep::train
