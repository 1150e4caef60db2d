// SPDX-License-Identifier: Apache-2.0
// Options of the computation and of the communication.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "apps/train/options/rows.hpp"
#include "backends/make_communicator.hpp"
#include "backends/plan/options.hpp"
#include "collectives/choice/selection.hpp"
#include "lockstep/backends/compressed.hpp"
#include "lockstep/comm/progress.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/nn/model.hpp"

namespace lockstep::train {
namespace {

using namespace cli;

Bytes bytes_of_bucket(double mib) {
  if (mib == 0) return DataParallelOptions::one_bucket;
  return {std::max<std::int64_t>(1, std::llround(mib * 1024 * 1024))};
}

/// Returns what is wrong with --device and the options beside it; empty if nothing is.
std::string conflict_of_device(const OptionValues& given, const Options& o) {
  if (o.device == "auto") return {};
  if (o.device == "cpu") {
    return o.precision.tf32 ? "--precision tf32 is for GPUs: choose float32, or --device cuda" : "";
  }
  if (o.device != "cuda" && listed_gpus(o.device).empty())
    return "--device " + o.device + ": give auto, cpu, cuda, or the indices of GPUs, such as 0 or 0,1";
  const std::string why = why_not_on_gpus(given, o);
  return why.empty() ? why : why + ", and has no meaning with --device " + o.device + ": leave one of the two out";
}

std::vector<Rule> computation_rules(const Options& o, const OptionValues& given) {
  const std::string device = conflict_of_device(given, o);
  return {{"device", !device.empty(), device},
          {"ops", o.library.name == "onednn" && o.precision.reals == DType::float64,
           "--ops onednn does not compute in float64: leave it out, or choose --precision float32"},
          {"loss-scale-window", given.has("loss-scale-window") && o.trainer.step.loss_scale.initial == 0,
           "--loss-scale-window has no meaning without a loss scale: give --loss-scale X, or choose --precision "
           "mixed-fp16"},
          {"kernels", !o.kernels.empty() && (o.exact || o.library.name == "reference"),
           std::string("--kernels has no meaning with --") + (o.exact ? "exact" : "ops reference") +
               ", which leaves one way to compute each operator: leave one of the two out"}};
}

/// Returns whether the algorithm, and no other one, keeps the bits the same on any number of ranks.
bool is_canonical(const Options& o) {
  const backends::Method method = backends::parse_method(o.algorithm);
  const collectives::Selection* selection = backends::selection_of(method);
  return selection != nullptr && collectives::is_canonical(*selection);
}

std::vector<Rule> communication_rules(const Options& o, const OptionValues& given) {
  const std::string algorithm = "--algorithm " + o.algorithm;
  const std::string compress = "--compress " + o.compress;
  const std::string shards = "--shards " + std::to_string(o.trainer.step.shards);
  const bool is_forced = o.algorithm != "auto";
  const bool compresses = o.compress != "none";
  const bool has_shards = o.trainer.step.shards > 0;
  const bool in_float64 = o.precision.reals == DType::float64;
  return {
      {"tuning", given.has("tuning") && is_forced,
       "--tuning has no meaning with " + algorithm + "; did you mean --algorithm auto?"},
      {"compress", compresses && in_float64, compress + " is for float32: gradients in float64 would go uncompressed"},
      {"compress", compresses && !in_float64 && is_canonical(o),
       compress + " with " + algorithm +
           ": how often a sum is rounded on the wire depends on the number of ranks, and so would the bits, which it "
           "keeps the same"},
      {"shards", has_shards && is_forced && !is_canonical(o),
       shards + " with " + algorithm + ": it adds in an order of its own; leave it out, or choose --algorithm auto"},
      {"shards", has_shards && compresses,
       shards + " with " + compress + ": how often a sum is rounded on the wire depends on the number of ranks"},
      at_most_a_sample_each("shards", o.trainer.step.shards, o.trainer.batch),
      {"balance", o.trainer.balance && !has_shards,
       "--balance moves shards, and there are none: give --shards N, with several for each rank"},
      {"zero", o.trainer.zero && is_canonical(o),
       "--zero with " + algorithm +
           ": a reduce-scatter adds in an order that depends on the number of ranks, and so would the bits, which that "
           "algorithm keeps the same"},
      {"min-ranks", o.min_ranks > 0 && o.trainer.zero,
       "--min-ranks with --zero: a rank that dies takes its part of the optimizer's state along; leave --zero out, or "
       "restart from checkpoints (lockstep-launch --max_restart)"}};
}

}  // namespace

std::vector<int> listed_gpus(const std::string& device) {
  std::vector<int> gpus;
  const char* at = device.data();
  const char* end = at + device.size();
  while (at != end) {
    int gpu = 0;
    const auto [next, failure] = std::from_chars(at, end, gpu);
    if (failure != std::errc() || gpu < 0 || (next != end && (*next != ',' || next + 1 == end))) return {};
    gpus.push_back(gpu);
    at = next == end ? end : next + 1;
  }
  return gpus;
}

std::string why_not_on_gpus(const OptionValues& given, const Options& o) {
  if (given.has("ops")) return "--ops chooses a library for CPUs";
  if (o.precision.reals == DType::float64) return "--precision float64 is for CPUs";
  if (o.trainer.balance) return "--balance is for CPUs";
  if (backends::parse_compression(o.compress)) return "--compress is for CPUs";
  return {};
}

OptionGroup computation_options(Options& o, const Registry& registry) {
  std::vector<std::string_view> libraries;
  for (const ComputeLibrary& library : registry.libraries) libraries.push_back(library.name);
  const auto into_library = [&o, &registry](const OptionValue& value) {
    o.library = *std::ranges::find(registry.libraries, std::get<std::string>(value), &ComputeLibrary::name);
  };
  return {"Computation",
          {row("device", Text{"DEVICE"}, "auto",
               "where to train: cpu; cuda, one GPU for each rank; 0,1,... the GPUs of a host's ranks, counted within "
               "CUDA_VISIBLE_DEVICES; auto, GPUs where every rank can have one, else CPUs",
               into(o.device)),
           row("ops", one_of(libraries), described("onednn; reference with --precision float64"),
               "compute library of the layers", into_library),
           row("precision", one_of(precision_names()), "float32",
               "data type of activations and products; with bf16 and mixed-fp16, weights, gradients of weights and "
               "optimizer state stay float32",
               into(o.precision, precision_of)),
           row("loss-scale", Real{0, 1e30, "off"},
               described("off, and such a step ends the run; 65536 with --precision mixed-fp16"),
               "multiply the loss by X, and divide gradients by it in the update; steps with non-finite gradients are "
               "skipped and halve X; see --loss-scale-window",
               into(o.trainer.step.loss_scale.initial)),
           row("loss-scale-window", Whole{1, 1'000'000'000}, std::to_string(ops::LossScaleOptions{}.interval),
               "steps in a row with finite gradients after which the loss scale is doubled",
               into(o.trainer.step.loss_scale.interval)),
           row("exact", Switch{}, "no",
               "compute convolutions directly, without Winograd transforms, which are faster and round more",
               into(o.exact)),
           row("kernels", Text{"FILE"}, described("a fixed rule"),
               "compute each convolution by the kernel that FILE lists as the fastest; what FILE lacks is measured "
               "first, for at most 10 s on a CPU and 60 s on a GPU, and added",
               into(o.kernels)),
           row("without-pass", one_of(nn::OptimizationPasses::names(), true), no_default,
               "disable optimization passes of the step",
               [&o](const OptionValue& value) {
                 for (const std::string& pass : words_of(std::get<std::string>(value))) o.trainer.passes.disable(pass);
               }),
           row("threads", Whole{0, 1024, "auto"}, "auto",
               "compute threads of each rank; auto takes the rank's share of the processors", into(o.threads),
               Scope::each_rank),
           row("workers", Whole{0, 256}, described("1; as many as compute threads on GPUs, at most 8"),
               "threads of each rank that prepare batches; with 0 the compute threads do so between steps",
               into(o.workers), Scope::each_rank)},
          [&o](const OptionValues& given) { return computation_rules(o, given); }};
}

OptionGroup communication_options(Options& o) {
  return {
      "Communication",
      {row("algorithm", one_of(algorithm_names()), "auto",
           "all-reduce algorithm; auto takes the best for each size, mpi is the MPI library's own", into(o.algorithm)),
       row("tuning", Text{"FILE"}, described("a cost model"),
           "selection table for --algorithm auto, as written by comm-bench --tune=FILE", into(o.tuning),
           Scope::each_rank),
       row("bucket-mb", Real{.min = 0, .max = 65536, .zero = "all", .above_min = true},
           described("an eighth of all, from 0.25 to 4; 25 on GPUs"),
           "MiB of gradients that are all-reduced together; all: when backward ends, which shows what overlap gains",
           into(o.bucket, bytes_of_bucket)),
       row("compress", one_of(backends::compression_names()), "none", "data type of gradients on the wire",
           into(o.compress)),
       row("shards", Whole{0, 65536, "off"}, "off",
           "cut each step into N shards, at least as many as ranks, and reduce their gradients in one fixed order: the "
           "same bits on any number of ranks, nodes and threads",
           into(o.trainer.step.shards)),
       row("balance", Switch{}, "no",
           "move shards from slow ranks to fast ones between steps, with the same bits; each rank keeps one",
           into(o.trainer.balance)),
       row("zero", Switch{}, "no",
           "shard the optimizer (ZeRO stage 1): each rank updates a part of the weights and holds the optimizer state "
           "of that part only",
           into(o.trainer.zero)),
       row("sockets", one_of(backends::socket_names()), "auto",
           "send messages between hosts over TCP connections of lockstep's own; auto: where no host has RDMA and all "
           "can connect",
           into(o.sockets)),
       row("checksum", Switch{}, "no",
           "give messages between hosts a checksum: one that the network has changed ends the run, with the rank that "
           "sent it",
           into(o.checksum)),
       row("connections", Whole{1, backends::PlanOptions::most_connections}, "1",
           "TCP connections that carry large messages between two ranks of different hosts, for networks on which one "
           "does not reach the rate of the link",
           into(o.connections)),
       row("wait", one_of(wait_names()), "auto",
           "what a rank does while it waits; auto spins while there is a processor for each rank, then yields, then "
           "sleeps",
           into(o.wait), Scope::each_rank),
       row("progress-thread", Word{.words = {"auto", "yes", "no"}, .implied = "yes"}, "auto",
           "let a thread of each rank progress communication during backward; otherwise layers poll. auto: on CPUs of "
           "several hosts, where each rank has more processors than compute threads",
           into(o.progress_thread), Scope::each_rank),
       row("comm-timeout", Real{.min = 0.001, .max = 10'000'000}, std::to_string(usual_deadline.count()),
           "seconds without progress after which a rank, a file or a device counts as hung: the run ends with exit "
           "code 4 and says which rank, and what all ranks do; other time limits derive from it",
           into(o.timeout_seconds), Scope::each_rank),
       row("min-ranks", Whole{1, 1'000'000, "off"}, "off",
           "if ranks die, go on with the others from the last step, in memory, as long as N are left; with --shards to "
           "the same weights. It takes Open MPI 5 and mpirun --with-ft ulfm. off: a death ends the run",
           into(o.min_ranks)),
       row("check", Switch{}, "no",
           "with --algorithm mpi, compare what ranks call before each operation; the other algorithms notice "
           "differences without it",
           into(o.check))},
      [&o](const OptionValues& given) { return communication_rules(o, given); }};
}

}  // namespace lockstep::train
