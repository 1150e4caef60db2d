// SPDX-License-Identifier: Apache-2.0
#include "apps/train/options/options.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "apps/cli/help.hpp"
#include "apps/cli/run_app.hpp"
#include "apps/train/options/rows.hpp"

namespace lockstep::train {

using namespace cli;

namespace {

/// Returns a model's defaults with those of another optimizer than SGD, which are PyTorch's and timm's.
nn::Defaults with_optimizer(nn::Defaults model, const std::string& optimizer) {
  if (optimizer == "sgd") return model;
  model.warmup_momentum.reset();
  model.warmup_bias_rate.reset();
  model.nesterov = false;
  model.momentum = 0.9;
  model.learning_rate = optimizer == "lars" ? 1 : 1e-3;
  if (optimizer != "lars") model.weight_decay = 1e-2;
  return model;
}

/// Sets the defaults that depend on the model, the optimizer and the precision.
void set_defaults(OptionValues& given, const nn::Defaults& model, const Precision& precision) {
  given.default_to("epochs", model.epochs);
  given.default_to("batch", given.has("batch-per-rank") ? 0 : model.batch);
  given.default_to("base-batch", model.batch);
  given.default_to("lr", model.learning_rate);
  given.default_to("lr-schedule", schedule_name(model.decay));
  const bool is_one_cycle = given.get<std::string>("lr-schedule") == schedule_name(nn::Decay::one_cycle);
  given.default_to("lr-final", is_one_cycle ? nn::one_cycle_final_fraction : model.final_fraction);
  const bool is_polynomial = given.get<std::string>("lr-schedule") == schedule_name(nn::Decay::polynomial);
  given.default_to("lr-power", is_polynomial ? model.power : 1.0);
  given.default_to("lr-by", std::string(model.decays_by_epoch && !is_one_cycle ? "epoch" : "step"));
  given.default_to("warmup", model.warmup_epochs);
  given.default_to("warmup-least-steps", model.least_warmup_steps);
  if (model.warmup_start && !is_one_cycle) given.default_to("warmup-start", *model.warmup_start);
  if (model.warmup_bias_rate && !is_one_cycle) given.default_to("warmup-bias-lr", *model.warmup_bias_rate);
  if (model.warmup_momentum && !is_one_cycle) given.default_to("warmup-momentum", *model.warmup_momentum);
  given.default_to("momentum", model.momentum);
  given.default_to("nesterov", model.nesterov);
  given.default_to("weight-decay", model.weight_decay);
  given.default_to("decay-vectors", model.decay_vectors);
  given.default_to("nominal-batch", model.nominal_batch);
  given.default_to("loss-times-batch", model.loss_times_batch);
  given.default_to("ema", model.ema);
  const bool has_ema = given.get<double>("ema") > 0;
  given.default_to("ema-ramp", has_ema ? model.ema_ramp : 0.0);
  given.default_to("ema-statistics", has_ema && model.ema_statistics);
  given.default_to("epsilon", given.get<std::string>("optimizer") == "lamb" ? 1e-6 : 1e-8);
  given.default_to("loss-scale", precision.loss_scale);
  given.default_to("ops", std::string(precision.reals == DType::float64 ? "reference" : "onednn"));
}

/// Stores the values in `options`, which rows of the program refer to. @return what is wrong with them
std::vector<Rule> store_in(Options& options, OptionValues& values, const Registry& registry) {
  options = Options{.program = options.program};  // whatever was stored before
  const nn::Defaults model =
      with_optimizer(registry.models.defaults(values.get<std::string>("model")), values.get<std::string>("optimizer"));
  set_defaults(values, model, precision_of(values.get<std::string>("precision")));
  std::vector<Rule> broken = values.store_and_check();
  options.eval_only |= !options.predict.empty();
  return broken;
}

/// Options of which a run has one or the other.
constexpr std::array<std::array<std::string_view, 2>, 2> one_or_the_other = {
    {{"batch", "batch-per-rank"}, {"warmup", "warmup-steps"}}};

/// Adds the options of the run that is resumed to those of the user. What belongs to the machine or to one start of the
/// run, or has no meaning beside the user's options, is left out.
OptionValues with_options_of_run(const OptionValues& given, const OptionsOfRun& run, const Program& program,
                                 const Registry& registry, Options& options) {
  OptionValues of_run = read_configuration(run.text, run.path, program);
  for (const char* other : {"device", "ops", "max-time", "weights", "partial-weights"}) of_run.remove(other);
  for (const auto& names : one_or_the_other)
    if (given.has(names[0]) || given.has(names[1]))
      for (const std::string_view name : names) of_run.remove(std::string(name));
  for (;;) {
    OptionValues all = given;
    all.add(of_run);
    bool is_settled = true;
    for (const Rule& broken : store_in(options, all, registry))
      if (!given.has(broken.option) && of_run.remove(broken.option)) is_settled = false;
    if (is_settled) return all;
  }
}

/// @throws UsageError if nothing says on which data the checkpoint of a run is to be evaluated
void require_data_to_evaluate(const Options& options, const OptionValues& values) {
  if (!options.eval_only || options.resume.empty() || !options.options_file.empty() || values.has("dataset")) return;
  throw UsageError("--eval-only --resume " + options.resume +
                   ": there is no options.conf in the folder of its run, which would say on which data it is to be "
                   "evaluated: give --dataset, --model and their options");
}

/// Options that options.conf does not have: those of a single run, and those of the machine, of which another one may
/// have better ones.
std::vector<std::string_view> not_in_configuration(const Options& options) {
  std::vector<std::string_view> left_out = {"config", "save-dir",  "resume", "metrics",
                                            "trace",  "eval-only", "device", "ops"};
  if (!options.warmup_given)
    left_out.insert(left_out.end(), {"warmup", "warmup-steps"});  // follows from the run's length
  return left_out;
}

double lr_factor(const Options& options, Count batch) {
  const double ratio = static_cast<double>(batch.value) / static_cast<double>(options.base_batch);
  if (options.lr_scaling == "none") return 1;
  if (options.lr_scaling == "linear") return ratio;
  return options.lr_scaling == "sqrt" ? std::sqrt(ratio) : std::stod(options.lr_scaling);
}

constexpr std::string_view table =
#include "foreign_options.txt"
    ;

/// Returns what stands before the separator, and removes both from `rest`.
std::string_view take_until(char separator, std::string_view& rest) {
  const std::string_view first = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(first.size() + 1, rest.size()));
  return first;
}

std::vector<ForeignOption> read_table() {
  std::vector<ForeignOption> all;
  ForeignOption row = {};
  for (std::string_view rest = table; !rest.empty();) {
    std::string_view line = take_until('\n', rest);
    if (line.starts_with('#')) continue;
    if (line.starts_with("! ") || line.starts_with("~ ")) {
      row = {.spelling = {}, .alias = {}, .answer = line.substr(2), .is_needless = line[0] == '~'};
      continue;
    }
    std::string_view spellings = take_until(';', line);
    if (!spellings.starts_with(' ')) {
      row = {.spelling = {},
             .alias = take_until(' ', spellings),
             .answer = line.substr(std::min<std::size_t>(1, line.size()))};
    }
    while (!spellings.empty()) {
      row.spelling = take_until(' ', spellings);
      if (!row.spelling.empty() && row.spelling[0] != '@' && row.spelling != "=") all.push_back(row);
    }
  }
  return all;
}

/// Lists what models are trained for, with the models.
std::string workloads_text(const Registry& registry) {
  std::string text = "Workloads, with their models:";
  for (const trainer::Workload& workload : registry.workloads) {
    std::string models;
    for (const std::string_view model : registry.models.names())
      if (registry.models.workload(model) == workload.name) models += (models.empty() ? "" : ", ") + std::string(model);
    if (!models.empty()) text += ' ' + workload.name + " (" + workload.about + "): " + models + ';';
  }
  text.back() = '.';
  return text;
}

/// Returns options of PaddleDetection, PaddleSeg, PaddleOCR, YOLOv5, torchrun, paddle.distributed.launch, Horovod and
/// mpirun, with the equivalent option of `train` or advice.
std::span<const ForeignOption> foreign_options() {
  static const std::vector<ForeignOption> all = read_table();
  return all;
}

}  // namespace

Program describe_train(const std::string& name, const Registry& registry, Options& options) {
  OptionGroup general = general_options();
  general.options.push_back(
      row("config", Text{"FILE"}, no_default,
          "read options from FILE, one 'name = value' or 'name: value' per line, with '#' before a comment, and "
          "quotation marks around values that have a '#' or end in blanks; the command line takes precedence",
          {}, Scope::each_rank));
  return {
      .name = name,
      .synopsis = "[mpirun -np RANKS] " + name + " [options]",
      .about = "Trains a model on all ranks of the job.",
      .groups = {data_options(options, registry), picture_options(options), training_options(options),
                 learning_rate_options(options), optimizer_options(options), computation_options(options, registry),
                 communication_options(options), checkpoint_options(options), prediction_options(options),
                 report_options(options), std::move(general)},
      .notes =
          workloads_text(registry) +
          "\n\nThe metrics of the test set are loss, accuracy and, with more than 5 classes, top5_accuracy; of images "
          "with "
          "a class also macro_f1, the mean F1 of all classes, which the table leaves out. Accuracy is that of the "
          "classes: of images, of pixels (pp-liteseg, unet), of the cells that have an object (detector), or of whole "
          "words "
          "(crnn, crnn-mv3, crnn-vgg); "
          "top5_accuracy counts labels among the 5 likeliest classes. docs/metrics.md has those of boxes and masks.\n\n"
          "Switches take yes or no, and mean yes without a value: --explain, --decay-vectors=no. '-c FILE' is "
          "short for --config FILE; '-o name=value ...' gives options as a configuration file does. '_' is read as "
          "'-', except that --save_interval N counts steps, as PaddleSeg's does. Unless said otherwise, ranks must "
          "have "
          "the same options; they compare them before they start.\n\n"
          "SIGUSR1 to any rank saves a checkpoint at the end of a step, and training goes on. SIGINT, SIGTERM, "
          "SIGHUP and SIGUSR2, and --max-time, save one and stop the run, with exit code 3. A second one of these "
          "signals, or any signal before training has begun, ends the program at once; a signal that is ignored, as "
          "nohup does with SIGHUP, stays ignored (where MPI uses UCX, with UCX_DEBUG_SIGNO=0). To stop a run send "
          "SIGUSR2 to Open MPI's "
          "mpirun, which passes it and SIGUSR1 on and waits; with MPICH, whose mpirun passes on SIGUSR1 only, send it "
          "to a rank. After a Ctrl-C or SIGTERM, Open MPI's mpirun sends SIGTERM to the ranks, soon kills them, and "
          "returns 1: Open MPI 5 kills them after a quarter of a second, and Open MPI 4 after a second, or what --mca "
          "odls_base_sigkill_timeout SECONDS says. Under Slurm use scancel JOBID.\n\n"
          "A run that ends and whose final state is in no checkpoint, because --save-dir became full or was removed, "
          "ends with exit code 5 instead of 0 or 3, and its last line says why.",
      .foreign = foreign_options()};
}

CommandLine parse_options(int argc, char** argv, const Registry& registry, const OptionsOfRun* run) {
  CommandLine line;
  Options& options = line.options;
  options.program = program_name(argc, argv);
  const Program program = describe_train(options.program, registry, options);
  OptionValues values = read_command_line(argc, argv, program);
  line.to_print = requested_text(values, program);
  const bool is_checked = line.to_print.empty() || values.get<std::string>("help") == "launcher";
  if (!is_checked) return line;
  for (const OptionNote& note : values.notes())
    if (!note.is_plain) line.notes.push_back(note.text);
  if (run != nullptr && !run->path.empty()) values = with_options_of_run(values, *run, program, registry, options);
  const std::vector<Rule> broken = store_in(options, values, registry);
  options.settings = values.of_all_ranks();
  if (run == nullptr && takes_options_of_run(options)) return line;
  OptionValues::refuse(broken);
  if (run != nullptr) options.options_file = run->path;
  require_data_to_evaluate(options, values);
  options.cpu_reason = why_not_on_gpus(values, options);
  options.trainer.precision = options.precision.reals;
  options.trainer.optimizer.bias_rate = options.trainer.schedule.warmup_bias_rate.has_value();
  options.warmup_given = values.has("warmup") || values.has("warmup-steps");
  options.configuration = values.as_configuration(not_in_configuration(options));
  return line;
}

GlobalBatch global_batch(int ranks, const Options& options) {
  if (ranks < options.min_ranks)
    throw UsageError("--min-ranks " + std::to_string(options.min_ranks) + ": there are only " + std::to_string(ranks) +
                     " ranks to begin with: start more, or give a smaller number");
  const bool is_per_rank = options.batch_per_rank > 0;
  const Count batch = is_per_rank ? Count{options.batch_per_rank * ranks} : options.trainer.batch;
  const ops::StepOptions& step = options.trainer.step;
  for (const Rule& rule : {at_most_a_sample_each("accumulate", step.accumulate, batch),
                           at_most_a_sample_each("shards", step.shards, batch)})
    if (rule.is_broken && is_per_rank) throw UsageError(rule.text);
  return {batch, options.trainer.schedule.peak * lr_factor(options, batch)};
}

}  // namespace lockstep::train
