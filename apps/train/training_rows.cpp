// SPDX-License-Identifier: Apache-2.0
// Options of the data, the model, the training and its computation.
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <system_error>

#include "apps/train/device.hpp"
#include "apps/train/option_rows.hpp"
#include "apps/train/precision.hpp"
#include "lockstep/nn/model.hpp"

namespace lockstep::train {
namespace {

constexpr std::array<std::string_view, 4> optimizers = {"sgd", "adamw", "lars", "lamb"};
constexpr std::array<std::string_view, 3> augmentations = {"none", "crop", "flip"};
constexpr std::array<std::string_view, 2> initial_values = {"broadcast", "compare"};

ops::UpdateRule rule_of(const std::string& word) {
  const auto found = std::find(optimizers.begin(), optimizers.end(), word);
  return static_cast<ops::UpdateRule>(found - optimizers.begin());  // in the order of the rules
}

InitialValues initial_of(const std::string& word) {
  return word == "compare" ? InitialValues::compare : InitialValues::broadcast;
}

/// Returns why an option cannot be given with the selected optimizer. @param of  the optimizers that have it
std::string conflict_of_rule(const OptionValues& given, const std::string& option, const std::string& of) {
  const auto optimizer = given.get<std::string>("optimizer");
  if (!given.has(option) || of.find(optimizer) != std::string::npos) return "";
  return "--" + option + " has no meaning with --optimizer " + optimizer + ": only " + of + " has it";
}

std::string conflict_of_data_dir(const OptionValues& given, const Options& o, data::Directory directory) {
  if (given.has("data-dir") && directory == data::Directory::none) {
    return "--data-dir has no meaning with --dataset " + o.dataset +
           ", which the program draws by itself; did you mean --dataset mnist or cifar10?";
  }
  if (!given.has("data-dir") && directory == data::Directory::required)
    return "--dataset " + o.dataset + " needs --data-dir, the folder with its files";
  return "";
}

data::Augmentation augmentation_of(const std::string& words) {
  data::Augmentation augmentation;
  for (const std::string& word : words_of(words)) {
    augmentation.crop |= word == "crop";
    augmentation.flip |= word == "flip";
  }
  return augmentation;
}

std::string conflict_of_augmentation(const OptionValues& given) {
  const auto words = given.get<std::string>("augment");
  const bool has_none = words.find("none") != std::string::npos;
  return has_none && words != "none" ? "--augment " + words + ": none cannot stand beside other words" : "";
}

std::string conflict_of_kernels(const Options& o) {
  if (o.kernels.empty() || !(o.exact || o.ops == "reference")) return "";
  return std::string("--kernels has no meaning with --") + (o.exact ? "exact" : "ops reference") +
         ", which leaves one way to compute each operator: leave one of the two out";
}

constexpr std::string_view no_early_stop = "off";

/// Reads "METRIC:N"; a patience of 0 if that is not what it says.
trainer::EarlyStop early_stop_of(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  trainer::EarlyStop stop{.metric = text.substr(0, colon)};
  if (colon == std::string::npos || stop.metric.empty()) return stop;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + colon + 1, end, stop.patience);
  if (read.ec != std::errc() || read.ptr != end || stop.patience < 0) stop.patience = 0;
  return stop;
}

std::string conflict_of_early_stop(const OptionValues& given, const Options& o) {
  const auto text = given.get<std::string>("early-stop");
  if (text == no_early_stop) return "";
  if (o.trainer.early_stop.patience == 0)
    return "--early-stop " + text + ": it must be a metric and a whole number of at least 1, such as accuracy:5, or " +
           std::string(no_early_stop);
  return o.trainer.eval_interval == 0 ? "--early-stop " + text + " has no meaning with --eval-interval never" : "";
}

}  // namespace

std::string too_many_parts(const std::string& option, int parts, const Options& o) {
  if (parts <= o.trainer.batch.value || o.trainer.batch.value == 0) return "";
  return option + ' ' + std::to_string(parts) + " cuts a --batch of " + std::to_string(o.trainer.batch.value) +
         " into parts without samples; take at most that many, or a larger --batch";
}

OptionGroup data_options(Options& o, const Registry& registry) {
  return {
      "Data and model",
      {{.name = "dataset",
        .domain = one_of(registry.datasets.names()),
        .help = "training data set; the synthetic ones are drawn and need no files",
        .otherwise = registry.dataset,
        .store = into(o.dataset)},
       {.name = "data-dir",
        .domain = Text{"DIR"},
        .help = "folder with the files of the data set: for mnist the four IDX files, which may end in .gz, for "
                "cifar10 the six files of the binary version, which mpi-scripts/cifar10.py also makes of images",
        .of_each_rank = true,
        .store = into(o.data_dir),
        .conflict =
            [&o, &registry](const OptionValues& given) {
              return conflict_of_data_dir(given, o, registry.datasets.directory(o.dataset));
            }},
       {.name = "full-fingerprint",
        .domain = Switch{},
        .help =
            "compare all samples of all ranks' data sets before the run, by a hash; otherwise as many as make 1 GiB, "
            "and 64 of data that need no files",
        .otherwise = "no",
        .store = into(o.full_fingerprint)},
       {.name = "augment",
        .domain = one_of(augmentations, true),
        .help = "change training images at random: crop moves them by up to 4 pixels, flip mirrors half of them; the "
                "same on any number of ranks",
        .otherwise = "none",
        .store = into(o.augmentation, augmentation_of),
        .conflict = conflict_of_augmentation},
       {.name = "model",
        .domain = one_of(registry.models.names()),
        .help = "network to train",
        .otherwise = registry.model,
        .store = into(o.model)},
       {.name = "initial",
        .domain = one_of(initial_values),
        .help = "how all ranks get the same initial weights: broadcast rank 0's, or compare everybody's",
        .otherwise = "broadcast",
        .store = into(o.trainer.initial, initial_of)},
       {.name = "freeze",
        .domain = Text{"NAME,..."},
        .help = "parameters not to train: full names, or prefixes up to a dot, such as layer1",
        .store = into(o.trainer.optimizer.frozen, words_of)},
       {.name = "seed",
        .domain = Whole{0, std::numeric_limits<std::int64_t>::max()},
        .help = "seed of the initial weights, of the order of samples and of drawn data",
        .otherwise = "1",
        .store = into(o.trainer.seed)}}};
}

OptionGroup training_options(Options& o) {
  return {
      "Training",
      {{.name = "epochs",
        .domain = Whole{1, 1'000'000'000},
        .help = "passes over the training set",
        .default_text = "by model",
        .store = into(o.trainer.epochs)},
       {.name = "steps",
        .domain = Whole{0, 1'000'000'000'000, "all"},
        .help = "stop after N steps; the learning-rate schedule then spans these N steps",
        .otherwise = "all",
        .store = into(o.trainer.steps)},
       {.name = "early-stop",
        .domain = Text{"METRIC:N"},
        .help =
            "end the run, completed, when a metric of the test set has not become better in N evaluations in a row; "
            "for example accuracy:5 or loss:5",
        .otherwise = std::string(no_early_stop),
        .store = into(o.trainer.early_stop, early_stop_of),
        .conflict = [&o](const OptionValues& given) { return conflict_of_early_stop(given, o); }},
       {.name = "max-time",
        .domain = Duration{"off"},
        .help = "stop after this time, as at SIGTERM: with a checkpoint and exit code 3; it counts from the program's "
                "start, and the last step and the checkpoint come on top",
        .otherwise = "off",
        .store =
            [&o](const OptionValue& time) { o.max_seconds = seconds_of(std::get<std::string>(time)).value_or(0); }},
       {.name = "batch",
        .domain = Whole{1, 1'000'000'000},
        .help = "global batch: samples of a step, over all ranks together",
        .default_text = "by model",
        .store = into(o.trainer.batch.value)},
       {.name = "batch-per-rank",
        .domain = Whole{1, 1'000'000'000},
        .help = "samples of a step on each rank, instead of --batch: the global batch grows with the number of ranks; "
                "see --lr-scaling",
        .default_text = "by --batch",
        .store = into(o.batch_per_rank),
        .conflict =
            [](const OptionValues& given) {
              return given.has("batch-per-rank") && given.has("batch")
                         ? "--batch-per-rank beside --batch: give the samples of a step for each rank or for all "
                           "together, and leave the other one out"
                         : "";
            }},
       {.name = "drop-last",
        .domain = Switch{},
        .help = "leave out the last batch of an epoch if it is smaller than the others; each epoch leaves out other "
                "samples",
        .otherwise = "no",
        .store = into(o.trainer.drop_last)},
       {.name = "label-smoothing",
        .domain = Real{0, 1, "off"},
        .help = "spread this fraction of each label evenly over all classes; the losses that are printed include it",
        .otherwise = "off",
        .store =
            [&o](const OptionValue& value) {
              const double fraction = std::get<double>(value);
              if (fraction == 0) return;
              o.graph_edits.push_back({"--label-smoothing " + text_of(fraction), [fraction](const nn::Graph& graph) {
                                         return nn::smooth_labels(graph, fraction);
                                       }});
            }},
       {.name = "accumulate",
        .domain = Whole{1, 65536},
        .help = "micro-batches per step on each rank, with one update: saves memory",
        .otherwise = "1",
        .store = into(o.trainer.step.accumulate),
        .conflict = [&o](const OptionValues&) { return too_many_parts("--accumulate", o.trainer.step.accumulate, o); }},
       {.name = "sync-bn",
        .domain = Switch{},
        .help =
            "synchronize batch normalization: mean and variance over the global batch instead of each rank's samples",
        .otherwise = "no",
        .store = into(o.trainer.sync_batch_norm)}}};
}

OptionGroup optimizer_options(Options& o) {
  return {
      "Optimizer",
      {{.name = "optimizer",
        .domain = one_of(optimizers),
        .help = "how weights are updated; the learning rate, momentum and weight decay then have defaults of their own",
        .otherwise = "sgd",
        .advice = "Adam without decay is adamw with --weight-decay 0",
        .store = into(o.trainer.optimizer.rule, rule_of),
        .conflict =
            [&o](const OptionValues& given) {
              const bool has_norms = o.trainer.optimizer.rule == ops::UpdateRule::lars ||
                                     o.trainer.optimizer.rule == ops::UpdateRule::lamb;
              return has_norms && o.trainer.zero && o.trainer.step.shards > 0
                         ? "--optimizer " + given.get<std::string>("optimizer") +
                               " with --zero and --shards: the norms of parts of tensors would not have the same bits "
                               "on any number of ranks; leave one of the two out"
                         : "";
            }},
       {.name = "momentum",
        .domain = Real{.min = 0, .max = 1, .below_max = true},
        .help = "momentum of sgd and lars; of adamw and lamb the decay of the gradients' mean, beta1",
        .default_text = "by model and optimizer",
        .store = into(o.trainer.optimizer.momentum)},
       {.name = "beta2",
        .domain = Real{.min = 0, .max = 1, .below_max = true},
        .help = "decay of the mean of squared gradients of adamw and lamb",
        .otherwise = "0.999",
        .store = into(o.trainer.optimizer.beta2),
        .conflict = [](const OptionValues& given) { return conflict_of_rule(given, "beta2", "adamw or lamb"); }},
       {.name = "epsilon",
        .domain = Real{.min = 0, .max = 1},
        .help = "summand of the denominator of adamw and lamb",
        .default_text = "1e-8; 1e-6 with lamb",
        .store = into(o.trainer.optimizer.epsilon),
        .conflict = [](const OptionValues& given) { return conflict_of_rule(given, "epsilon", "adamw or lamb"); }},
       {.name = "trust-coefficient",
        .domain = Real{.min = 0, .max = 1e6, .above_min = true},
        .help = "factor of the trust ratio of lars",
        .otherwise = "0.001",
        .store = into(o.trainer.optimizer.trust_coefficient),
        .conflict = [](const OptionValues& given) { return conflict_of_rule(given, "trust-coefficient", "lars"); }},
       {.name = "nesterov",
        .domain = Switch{},
        .help = "use Nesterov momentum",
        .default_text = "by model",
        .store = into(o.trainer.optimizer.nesterov),
        .conflict =
            [&o](const OptionValues&) {
              if (!o.trainer.optimizer.nesterov) return "";
              if (o.trainer.optimizer.rule != ops::UpdateRule::sgd) return "--nesterov belongs to --optimizer sgd";
              return o.trainer.optimizer.momentum == 0 ? "--nesterov needs a momentum above 0" : "";
            }},
       {.name = "weight-decay",
        .domain = Real{.min = 0, .max = 1e38},
        .help = "L2 weight decay; of adamw and lamb it is apart from the gradients",
        .default_text = "by model and optimizer",
        .store = into(o.trainer.optimizer.weight_decay)},
       {.name = "decay-vectors",
        .domain = Switch{},
        .help = "apply weight decay, and the trust ratio of lars and lamb, to biases and to scales and shifts of "
                "normalization, too",
        .otherwise = "yes",
        .store = into(o.trainer.optimizer.decay_vectors)},
       {.name = "clip-norm",
        .domain = Real{0, 1e30, "off"},
        .help = "clip gradients to this global L2 norm",
        .otherwise = "off",
        .store = into(o.trainer.step.clip_norm)},
       {.name = "ema",
        .domain = Real{.min = 0, .max = 1, .zero = "off", .below_max = true},
        .help = "keep an exponential moving average of the weights with decay X, and evaluate with it; it spans about "
                "1/(1-X) steps: 0.99 for runs of hundreds of steps, 0.999 for thousands",
        .otherwise = "off",
        .store = into(o.trainer.step.ema)}}};
}

OptionGroup computation_options(Options& o) {
  return {"Computation",
          {{.name = "device",
            .domain = Text{"DEVICE"},
            .help = "where to train: cpu; cuda, one GPU for each rank; 0,1,... the GPUs of a host's ranks, counted "
                    "within CUDA_VISIBLE_DEVICES; auto, GPUs where every rank can have one, else CPUs",
            .otherwise = "auto",
            .store = into(o.device),
            .conflict = [&o](const OptionValues& given) { return conflict_of_device(given, o); }},
           {.name = "ops",
            .domain = one_of(library_names()),
            .help = "compute library of the layers",
            .default_text = "onednn; reference with --precision float64",
            .store = into(o.ops),
            .conflict =
                [&o](const OptionValues&) {
                  return o.ops == "onednn" && o.precision.reals == DType::float64
                             ? "--ops onednn does not compute in float64: leave it out, or choose --precision float32"
                             : "";
                }},
           {.name = "precision",
            .domain = one_of(precision_names()),
            .help = "data type of activations and products; with bf16 and mixed-fp16, weights, gradients of weights "
                    "and optimizer state stay float32",
            .otherwise = "float32",
            .store = into(o.precision, precision_of)},
           {.name = "loss-scale",
            .domain = Real{0, 1e30, "off"},
            .help = "multiply the loss by X, and divide gradients by it in the update; steps with non-finite gradients "
                    "are skipped and halve X, 2000 steps without one double it",
            .default_text = "off, and such a step ends the run; 65536 with --precision mixed-fp16",
            .store = into(o.trainer.step.loss_scale.initial)},
           {.name = "exact",
            .domain = Switch{},
            .help = "compute convolutions directly, without Winograd transforms, which are faster and round more",
            .otherwise = "no",
            .store = into(o.exact)},
           {.name = "kernels",
            .domain = Text{"FILE"},
            .help = "compute each convolution by the kernel that FILE lists as the fastest; what FILE lacks is "
                    "measured first, for at most 10 s on a CPU and 60 s on a GPU, and added",
            .default_text = "a fixed rule",
            .store = into(o.kernels),
            .conflict = [&o](const OptionValues&) { return conflict_of_kernels(o); }},
           {.name = "without-pass",
            .domain = one_of(nn::OptimizationPasses::names(), true),
            .help = "disable optimization passes of the step",
            .store =
                [&o](const OptionValue& value) {
                  for (const std::string& pass : words_of(std::get<std::string>(value))) o.trainer.passes.disable(pass);
                }},
           {.name = "threads",
            .domain = Whole{0, 1024, "auto"},
            .help = "compute threads of each rank; auto takes the rank's share of the processors",
            .otherwise = "auto",
            .of_each_rank = true,
            .store = into(o.threads)},
           {.name = "workers",
            .domain = Whole{0, 256},
            .help = "threads of each rank that prepare batches; with 0 the compute threads do so between steps",
            .otherwise = "1",
            .of_each_rank = true,
            .store = into(o.trainer.workers)}}};
}

}  // namespace lockstep::train
