// SPDX-License-Identifier: Apache-2.0
#include "apps/train/option_rows.hpp"

#include <array>
#include <limits>
#include <utility>

#include "apps/common/help.hpp"
#include "apps/train/foreign_options.hpp"
#include "apps/train/precision.hpp"
#include "lockstep/backends/compressed.hpp"
#include "lockstep/backends/method.hpp"
#include "lockstep/comm/progress.hpp"
#include "lockstep/nn/model.hpp"

namespace lockstep::train {
namespace {

constexpr std::array<std::string_view, 2> devices = {"cpu", "cuda"};
constexpr std::array<std::string_view, 2> op_libraries = {"onednn", "reference"};
constexpr std::array<std::string_view, 2> initial_values = {"broadcast", "compare"};

using Words = std::vector<std::string_view>;
template <typename List>
Word one_of(const List& words, bool several = false) {
  return {Words(std::begin(words), std::end(words)), several};
}

OptionGroup data_options(const Registry& registry) {
  return {"Data and model",
          {{.name = "dataset",
            .domain = one_of(registry.datasets.names()),
            .help = "training data set; the synthetic ones are drawn and need no files",
            .otherwise = registry.dataset},
           {.name = "data-dir",
            .domain = Text{"DIR"},
            .help = "folder with the files of the data set: for mnist the four IDX files, which may end in .gz, for "
                    "cifar10 the six files of the binary version, which mpi-scripts/cifar10.py also makes of images",
            .of_each_rank = true},
           {.name = "model",
            .domain = one_of(registry.models.names()),
            .help = "network to train",
            .otherwise = registry.model},
           {.name = "initial",
            .domain = one_of(initial_values),
            .help = "how all ranks get the same initial weights: broadcast rank 0's, or compare everybody's",
            .otherwise = "broadcast"},
           {.name = "freeze",
            .domain = Text{"NAME,..."},
            .help = "parameters not to train: full names, or prefixes up to a dot, such as layer1"},
           {.name = "seed",
            .domain = Whole{0, std::numeric_limits<std::int64_t>::max()},
            .help = "seed of the initial weights, of the order of samples and of drawn data",
            .otherwise = "1"}}};
}

OptionGroup training_options() {
  return {
      "Training",
      {{.name = "epochs",
        .domain = Whole{1, 1'000'000'000},
        .help = "passes over the training set",
        .default_text = "by model"},
       {.name = "steps",
        .domain = Whole{0, 1'000'000'000'000, "all"},
        .help = "stop after N steps; the learning-rate schedule then spans these N steps",
        .otherwise = "all"},
       {.name = "batch",
        .domain = Whole{1, 1'000'000'000},
        .help = "global batch: samples of a step, over all ranks together",
        .default_text = "by model"},
       {.name = "lr",
        .domain = Real{.min = 0, .max = 1e38, .above_min = true},
        .help = "peak learning rate; it then decays as the header of the run says",
        .default_text = "by model"},
       {.name = "warmup",
        .domain = Real{.min = 0, .max = 1e9},
        .help = "epochs, or a fraction of one, in which the learning rate grows linearly to its peak",
        .default_text = "by model"},
       {.name = "momentum",
        .domain = Real{.min = 0, .max = 1, .below_max = true},
        .help = "momentum of SGD",
        .default_text = "by model"},
       {.name = "nesterov", .domain = Switch{}, .help = "use Nesterov momentum", .default_text = "by model"},
       {.name = "weight-decay",
        .domain = Real{.min = 0, .max = 1e38},
        .help = "L2 weight decay",
        .default_text = "by model"},
       {.name = "decay-vectors",
        .domain = Switch{},
        .help = "apply weight decay to biases and to scales and shifts of normalization, too",
        .otherwise = "yes"},
       {.name = "clip-norm",
        .domain = Real{0, 1e30, "off"},
        .help = "clip gradients to this global L2 norm",
        .otherwise = "off"},
       {.name = "ema",
        .domain = Real{.min = 0, .max = 1, .zero = "off", .below_max = true},
        .help = "keep an exponential moving average of the weights with decay X, and evaluate with it; it spans about "
                "1/(1-X) steps: 0.99 for runs of hundreds of steps, 0.999 for thousands",
        .otherwise = "off"},
       {.name = "accumulate",
        .domain = Whole{1, 65536},
        .help = "micro-batches per step on each rank, with one update: saves memory",
        .otherwise = "1"},
       {.name = "sync-bn",
        .domain = Switch{},
        .help =
            "synchronize batch normalization: mean and variance over the global batch instead of each rank's samples",
        .otherwise = "no"}}};
}

OptionGroup computation_options() {
  return {"Computation",
          {{.name = "device",
            .domain = one_of(devices),
            .help = "device to train on; cuda is not available yet",
            .otherwise = "cpu",
            .advice = "train computes on CPUs only so far, and takes no device numbers: leave it out, and start "
                      "ranks by mpirun -np N"},
           {.name = "ops",
            .domain = one_of(op_libraries),
            .help = "compute library of the layers",
            .default_text = "onednn; reference with --precision float64"},
           {.name = "precision",
            .domain = one_of(precision_names()),
            .help = "data type of activations and products; with bf16 and mixed-fp16, weights, gradients of weights "
                    "and optimizer state stay float32",
            .otherwise = "float32"},
           {.name = "loss-scale",
            .domain = Real{0, 1e30, "off"},
            .help = "multiply the loss by X, and divide gradients by it in the update; steps with non-finite gradients "
                    "are skipped and halve X, 2000 steps without one double it",
            .default_text = "off, and such a step ends the run; 65536 with --precision mixed-fp16"},
           {.name = "exact",
            .domain = Switch{},
            .help = "compute convolutions directly, without Winograd transforms, which are faster and round more",
            .otherwise = "no"},
           {.name = "kernels",
            .domain = Text{"FILE"},
            .help = "compute each convolution by the kernel that FILE lists as the fastest; what FILE lacks is "
                    "measured first, for at most 10 s, and added",
            .default_text = "a fixed rule"},
           {.name = "without-pass",
            .domain = one_of(nn::Passes::names(), true),
            .help = "disable optimization passes of the step"},
           {.name = "threads",
            .domain = Whole{0, 1024, "auto"},
            .help = "compute threads of each rank; auto takes the rank's share of the processors",
            .otherwise = "auto",
            .of_each_rank = true},
           {.name = "workers",
            .domain = Whole{0, 256},
            .help = "threads of each rank that prepare batches; with 0 the compute threads do so between steps",
            .otherwise = "1",
            .of_each_rank = true}}};
}

OptionGroup communication_options() {
  const std::span<const std::string_view> waits = wait_names();
  return {
      "Communication",
      {{.name = "algorithm",
        .domain = one_of(backends::method_names()),
        .help = "all-reduce algorithm; auto takes the best for each size, mpi is the MPI library's own",
        .otherwise = "auto"},
       {.name = "tuning",
        .domain = Text{"FILE"},
        .help = "selection table for --algorithm auto, as written by comm-bench --tune=FILE",
        .default_text = "a cost model",
        .of_each_rank = true},
       {.name = "bucket-mb",
        .domain = Real{.min = 0, .max = 65536, .above_min = true},
        .help = "MiB of gradients that are all-reduced together",
        .otherwise = "4"},
       {.name = "compress",
        .domain = one_of(backends::compression_names()),
        .help = "data type of gradients on the wire",
        .otherwise = "none"},
       {.name = "shards",
        .domain = Whole{0, 65536, "off"},
        .help = "cut each step into N shards, at least as many as ranks, and reduce their gradients in one fixed "
                "order: the same bits on any number of ranks, nodes and threads",
        .otherwise = "off"},
       {.name = "zero",
        .domain = Switch{},
        .help = "shard the optimizer (ZeRO stage 1): each rank updates a part of the weights and holds the optimizer "
                "state of that part only",
        .otherwise = "no"},
       {.name = "wait",
        .domain = one_of(waits),
        .help = "what a rank does while it waits; auto spins while there is a processor for each rank, then yields, "
                "then sleeps",
        .otherwise = "auto",
        .of_each_rank = true},
       {.name = "progress-thread",
        .domain = Switch{},
        .help = "let a thread progress communication during backward, where a processor is free; otherwise layers poll",
        .otherwise = "no",
        .of_each_rank = true},
       {.name = "timeout",
        .domain = Real{.min = 0.001, .max = 10'000'000},
        .help = "seconds without progress after which an all-reduce fails",
        .otherwise = "300",
        .of_each_rank = true},
       {.name = "check",
        .domain = Switch{},
        .help = "with --algorithm mpi, compare what ranks call before each operation; the other algorithms notice "
                "differences without it",
        .otherwise = "no"}}};
}

OptionGroup report_options() {
  return {"Reports",
          {{.name = "compare-every",
            .domain = Whole{0, 1'000'000'000, "never"},
            .help = "steps from one comparison of all ranks' weights to the next, by a hash",
            .otherwise = "100"},
           {.name = "eval-interval",
            .domain = Whole{1, 1'000'000'000, "never"},
            .help = "evaluate after every Nth epoch and at the end, or never",
            .otherwise = "1"},
           {.name = "log-every",
            .domain = Whole{1, 1'000'000'000},
            .help = "steps from one step event in --metrics to the next",
            .otherwise = "50",
            .of_each_rank = true},
           {.name = "metrics",
            .domain = Text{"FILE"},
            .help = "append one JSON object per line to FILE: start, step (loss, learning_rate), epoch (train_loss, "
                    "val_loss, val_accuracy) and end",
            .of_each_rank = true},
           {.name = "trace",
            .domain = Text{"FILE"},
            .help = "write a timeline of all ranks to FILE, for chrome://tracing or ui.perfetto.dev",
            .of_each_rank = true},
           {.name = "explain",
            .domain = Switch{},
            .help = "print which algorithm all-reduces each bucket of gradients, and why",
            .otherwise = "no",
            .of_each_rank = true},
           {.name = "explain-step",
            .domain = Switch{},
            .help = "print the time, the kernel and the fraction of the roofline of each operator of a step",
            .otherwise = "no"}}};
}

}  // namespace

Program describe_train(const std::string& name, const Registry& registry) {
  OptionGroup general = general_options();
  general.options.push_back(
      {.name = "config",
       .domain = Text{"FILE"},
       .help = "read options from FILE, one 'name = value' or 'name: value' per line, with '#' before a comment; the "
               "command line takes precedence",
       .of_each_rank = true});
  return {
      .name = name,
      .synopsis = "[mpirun -np RANKS] " + name + " [options]",
      .about = "Trains a model on all ranks of the job.",
      .groups = {data_options(registry), training_options(), computation_options(), communication_options(),
                 report_options(), std::move(general)},
      .notes =
          "Accuracy is that of the classes: of images, of pixels (unet), of the cells that have an object "
          "(detector), or of whole words (crnn). There are no mAP and no checkpoints yet.\n\n"
          "Switches take yes or no, and mean yes without a value: --explain, --decay-vectors=no. '-c FILE' is "
          "short for --config FILE; '-o name=value ...' gives options as a configuration file does. '_' is read as "
          "'-'. Unless said otherwise, ranks must have the same options; they compare them before they start.\n\n"
          "SIGINT, SIGTERM and SIGUSR1 stop the run at the end of a step, with exit code 3. A second signal, or one "
          "before training has begun, ends the program at once. mpirun passes SIGUSR1 on; after a Ctrl-C or SIGTERM "
          "it sends the ranks SIGTERM in a second, kills them after another, and returns 1: mpirun --mca "
          "odls_base_sigkill_timeout SECONDS makes both longer. Under Slurm use scancel --signal=USR1 JOBID.",
      .foreign = foreign_options()};
}

}  // namespace lockstep::train
