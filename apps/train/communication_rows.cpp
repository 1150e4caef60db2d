// SPDX-License-Identifier: Apache-2.0
// Options of the communication and of the reports.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "apps/train/option_rows.hpp"
#include "backends/method.hpp"
#include "backends/plan/options.hpp"
#include "collectives/choice/selection.hpp"
#include "lockstep/backends/compressed.hpp"
#include "lockstep/comm/progress.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "observe/progress_display.hpp"

namespace lockstep::train {
namespace {

std::int64_t bytes_of_mib(double mib) { return std::max<std::int64_t>(1, std::llround(mib * 1024 * 1024)); }

/// Returns whether the algorithm, and no other one, keeps the bits the same on any number of ranks.
bool is_canonical(const Options& o) {
  const backends::Method method = backends::parse_method(o.algorithm);
  const collectives::Selection* selection = backends::selection_of(method);
  return selection != nullptr && collectives::is_canonical(*selection);
}

/// Returns whether the user has chosen one algorithm.
bool is_forced(const Options& o) { return o.algorithm != "auto"; }

std::string algorithm_of(const Options& o) { return "--algorithm " + o.algorithm; }

std::string conflict_of_compress(const Options& o) {
  if (o.compress == "none") return "";
  if (o.precision.reals == DType::float64)
    return "--compress " + o.compress + " is for float32: gradients in float64 would go uncompressed";
  if (!is_canonical(o)) return "";
  return "--compress " + o.compress + " with " + algorithm_of(o) +
         ": how often a sum is rounded on the wire depends on the number of ranks, and so would the bits, which it "
         "keeps "
         "the same";
}

std::string conflict_of_shards(const Options& o) {
  if (o.trainer.step.shards == 0) return "";
  const std::string shards = "--shards " + std::to_string(o.trainer.step.shards);
  if (is_forced(o) && !is_canonical(o))
    return shards + " with " + algorithm_of(o) +
           ": it adds in an order of its own; leave it out, or choose --algorithm auto";
  if (o.compress != "none") {
    return shards + " with --compress " + o.compress +
           ": how often a sum is rounded on the wire depends on the number of ranks";
  }
  return too_many_parts("--shards", o.trainer.step.shards, o);
}

std::string conflict_of_min_ranks(const Options& o) {
  if (o.min_ranks == 0 || !o.trainer.zero) return "";
  return "--min-ranks with --zero: a rank that dies takes its part of the optimizer's state along; leave --zero out, "
         "or "
         "restart from checkpoints (lockstep-launch --max_restart)";
}

std::string conflict_of_balance(const Options& o) {
  if (!o.trainer.balance || o.trainer.step.shards > 0) return "";
  return "--balance moves shards, and there are none: give --shards N, with several for each rank";
}

std::string conflict_of_zero(const Options& o) {
  if (!o.trainer.zero || !is_canonical(o)) return "";
  return "--zero with " + algorithm_of(o) +
         ": a reduce-scatter adds in an order that depends on the number of ranks, and so would the bits, which that "
         "algorithm keeps the same";
}

std::string conflict_of_tuning(const OptionValues& given, const Options& o) {
  if (!given.has("tuning") || !is_forced(o)) return "";
  return "--tuning has no meaning with " + algorithm_of(o) + "; did you mean --algorithm auto?";
}

std::string conflict_of_explain(const Options& o) {
  if (!o.explain || o.algorithm != "mpi") return "";
  return "--explain has no meaning with --algorithm mpi: how the MPI library chooses is not known here";
}

/// What happens where ranks hang, die, or differ.
std::vector<Option> failure_rows(Options& o) {
  return {
      {.name = "comm-timeout",
       .domain = Real{.min = 0.001, .max = 10'000'000},
       .help = "seconds without progress after which a rank, a file or a device counts as hung: the run ends with "
               "exit code 4 and says which rank, and what all ranks do; other time limits derive from it",
       .otherwise = std::to_string(usual_deadline.count()),
       .of_each_rank = true,
       .store = into(o.timeout_seconds)},
      {.name = "min-ranks",
       .domain = Whole{1, 1'000'000, "off"},
       .help = "if ranks die, go on with the others from the last step, in memory, as long as N are left; with "
               "--shards to the same weights. It takes Open MPI 5 and mpirun --with-ft ulfm. off: a death ends the run",
       .otherwise = "off",
       .store = into(o.min_ranks),
       .conflict = [&o](const OptionValues&) { return conflict_of_min_ranks(o); }},
      {.name = "check",
       .domain = Switch{},
       .help = "with --algorithm mpi, compare what ranks call before each operation; the other algorithms notice "
               "differences without it",
       .otherwise = "no",
       .store = into(o.check)}};
}

}  // namespace

OptionGroup communication_options(Options& o) {
  OptionGroup group{
      "Communication",
      {{.name = "algorithm",
        .domain = one_of(algorithm_names()),
        .help = "all-reduce algorithm; auto takes the best for each size, mpi is the MPI library's own",
        .otherwise = "auto",
        .store = into(o.algorithm)},
       {.name = "tuning",
        .domain = Text{"FILE"},
        .help = "selection table for --algorithm auto, as written by comm-bench --tune=FILE",
        .default_text = "a cost model",
        .of_each_rank = true,
        .store = into(o.tuning),
        .conflict = [&o](const OptionValues& given) { return conflict_of_tuning(given, o); }},
       {.name = "bucket-mb",
        .domain = Real{.min = 0, .max = 65536, .above_min = true},
        .help = "MiB of gradients that are all-reduced together",
        .default_text = "4; 25 on GPUs",
        .store = into(o.trainer.bucket.value, bytes_of_mib)},
       {.name = "compress",
        .domain = one_of(backends::compression_names()),
        .help = "data type of gradients on the wire",
        .otherwise = "none",
        .store = into(o.compress),
        .conflict = [&o](const OptionValues&) { return conflict_of_compress(o); }},
       {.name = "shards",
        .domain = Whole{0, 65536, "off"},
        .help = "cut each step into N shards, at least as many as ranks, and reduce their gradients in one fixed "
                "order: the same bits on any number of ranks, nodes and threads",
        .otherwise = "off",
        .store = into(o.trainer.step.shards),
        .conflict = [&o](const OptionValues&) { return conflict_of_shards(o); }},
       {.name = "balance",
        .domain = Switch{},
        .help = "move shards from slow ranks to fast ones between steps, with the same bits; each rank keeps one",
        .otherwise = "no",
        .store = into(o.trainer.balance),
        .conflict = [&o](const OptionValues&) { return conflict_of_balance(o); }},
       {.name = "zero",
        .domain = Switch{},
        .help = "shard the optimizer (ZeRO stage 1): each rank updates a part of the weights and holds the optimizer "
                "state of that part only",
        .otherwise = "no",
        .store = into(o.trainer.zero),
        .conflict = [&o](const OptionValues&) { return conflict_of_zero(o); }},
       {.name = "sockets",
        .domain = one_of(backends::socket_names()),
        .help = "send small messages between hosts over TCP connections of lockstep's own; auto: where no host has "
                "RDMA and all can connect",
        .otherwise = "auto",
        .store = into(o.sockets)},
       {.name = "wait",
        .domain = one_of(wait_names()),
        .help = "what a rank does while it waits; auto spins while there is a processor for each rank, then yields, "
                "then sleeps",
        .otherwise = "auto",
        .of_each_rank = true,
        .store = into(o.wait)},
       {.name = "progress-thread",
        .domain = Switch{},
        .help = "let a thread progress communication during backward, where a processor is free; otherwise layers poll",
        .otherwise = "no",
        .of_each_rank = true,
        .store = into(o.progress_thread)}}};
  for (Option& option : failure_rows(o)) group.options.push_back(std::move(option));
  return group;
}

OptionGroup report_options(Options& o) {
  return {"Reports",
          {{.name = "compare-every",
            .domain = Whole{0, 1'000'000'000, "never"},
            .help = "steps from one comparison of all ranks' weights to the next, by a hash",
            .otherwise = "100",
            .store = into(o.trainer.compare_every)},
           {.name = "eval-interval",
            .domain = Whole{1, 1'000'000'000, "never"},
            .help = "evaluate after every Nth epoch and at the end, or never",
            .otherwise = "1",
            .store = into(o.trainer.eval_interval)},
           {.name = "log-every",
            .domain = Whole{1, 1'000'000'000},
            .help = "steps from one step event in --metrics to the next",
            .otherwise = "50",
            .of_each_rank = true,
            .store = into(o.trainer.log_every)},
           {.name = "metrics",
            .domain = Text{"FILE"},
            .help = "append one JSON object per line to FILE: start, step (loss, learning_rate), epoch (train_loss, "
                    "and each metric of the test set: val_loss, val_accuracy, ...) and end",
            .of_each_rank = true,
            .store = into(o.metrics)},
           {.name = "stragglers",
            .domain = Switch{},
            .help = "print the slow ranks every few seconds, too, with what they lose time on: data or computing; the "
                    "table has the slowest one of each epoch anyway",
            .otherwise = "no",
            .of_each_rank = true,
            .store =
                [&o](const OptionValue& value) {
                  o.trainer.straggler_seconds = std::get<bool>(value) ? observe::ProgressOptions{}.interval_seconds : 0;
                }},
           {.name = "trace",
            .domain = Text{"FILE"},
            .help = "write a timeline of all ranks to FILE, for chrome://tracing or ui.perfetto.dev",
            .of_each_rank = true,
            .store = into(o.trace)},
           {.name = "explain",
            .domain = Switch{},
            .help = "print which algorithm all-reduces each bucket of gradients, and why",
            .otherwise = "no",
            .of_each_rank = true,
            .store = into(o.explain),
            .conflict = [&o](const OptionValues&) { return conflict_of_explain(o); }},
           {.name = "explain-step",
            .domain = Switch{},
            .help = "print the time, the kernel and the fraction of the roofline of each operator of a step",
            .otherwise = "no",
            .store = into(o.explain_step)}}};
}

}  // namespace lockstep::train
