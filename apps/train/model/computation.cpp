// SPDX-License-Identifier: Apache-2.0
#include "apps/train/model/computation.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include "apps/cli/run_app.hpp"
#include "base/text_file.hpp"
#include "base/wrapped.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/ops/cuda.hpp"
#include "lockstep/ops/kernel_choices.hpp"
#include "nn/plan/choose.hpp"
#include "platform/machine/topology.hpp"
#include "platform/ranks/bootstrap.hpp"

namespace lockstep::train {
namespace {

ops::KernelChoicesByConditions parsed(const std::optional<std::string>& text, const std::string& path) {
  return text ? ops::parse_choices_file(*text, path) : ops::KernelChoicesByConditions();
}

/// Returns the conditions under which measured times are comparable.
std::string conditions_of(const ops::Ops& ops, int threads, DType dtype) {
  const Topology topology = discover_topology();
  const std::string processor = topology.packages.empty() ? "" : topology.packages.front().model;
  return (processor.empty() ? "an unknown processor" : processor) + ", " + ops.arithmetic() + ", " +
         std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") + std::string(name(dtype));
}

/// For GPUs some candidates are compiled when they are measured.
Phase::Seconds time_limit(const ops::Ops& ops) {
  return Phase::Seconds(ops.device().queue().is_host() ? nn::MeasureOptions{}.seconds : 60);
}

std::string line_about(const std::string& path, const nn::MeasuredChoices& chosen) {
  const std::string left =
      chosen.left > 0 ? ", " + std::to_string(chosen.left) + " left to the rule: time was over" : "";
  return "kernels by " + path +
         format_text(": %zu operators (%d known, %d measured in %.1f s%s), hash ", chosen.choices.size(), chosen.known,
                     chosen.measured, chosen.seconds, left.c_str()) +
         chosen.choices.hash() + '\n';
}

/// Measures the operators of all graphs of a model. @param known  choices that are not measured again
nn::MeasuredChoices measure(const ModelOnDevice& model, ops::Ops& ops, const nn::MeasureOptions& choose,
                            const ops::KernelChoices& known) {
  nn::MeasuredChoices all = nn::measure_kernels(model.graph, ops, choose, known);
  for (const nn::Graph& graph : model.others) {
    ops::KernelChoices known_now = known;
    known_now.add(all.choices);
    const nn::MeasuredChoices more = nn::measure_kernels(graph, ops, choose, known_now);
    all.choices.add(more.choices);
    all.known += more.known;
    all.measured += more.measured;
    all.left += more.left;
    all.seconds += more.seconds;
  }
  return all;
}

nn::MeasuredChoices read_and_measure(const Options& options, const ModelOnDevice& model, ops::Ops& ops, int threads,
                                     std::int64_t samples) {
  const SharedTextFile file(options.kernels);
  const nn::MeasureOptions choose{.dtype = options.trainer.precision,
                                  .samples = samples,
                                  .synchronized = options.trainer.sync_batch_norm,
                                  .passes = options.trainer.passes,
                                  .seconds = time_limit(ops).count()};
  const std::string conditions = conditions_of(ops, threads, choose.dtype);
  nn::MeasuredChoices chosen = measure(model, ops, choose, parsed(file.read(), options.kernels)[conditions]);
  if (chosen.measured > 0) {
    file.update([&](const std::optional<std::string>& present) {  // keeps what another job has added meanwhile
      ops::KernelChoicesByConditions all = parsed(present, options.kernels);
      all[conditions].add(chosen.choices);
      return ops::format_choices_file(all);
    });
  }
  return chosen;
}

/// @return a line about the file for people, on rank 0
std::string use_kernel_choices(const World& world, const Options& options, const ModelOnDevice& model, ops::Ops& ops,
                               int threads, std::int64_t samples) {
  nn::MeasuredChoices chosen;
  const Phase phase(world.group(), "measuring kernels for '" + options.kernels + "'", Phase::Kind::work,
                    time_limit(ops) * static_cast<double>(1 + model.others.size()));
  agree_on_rank_zero(world.group(), [&] { chosen = read_and_measure(options, model, ops, threads, samples); });
  const std::string text = broadcast_string(world.group(), chosen.choices.text(), {0});
  agree(world.group(), [&] { ops.use(ops::KernelChoices::parse(text, options.kernels)); });
  return world.rank() == Rank{0} ? line_about(options.kernels, chosen) : std::string();
}

/// Makes the library of the group's GPU, which all ranks must have in the same version.
std::unique_ptr<ops::Ops> make_ops_on_gpu(const World& world, const Options& options, const ProcessGroup& group) {
  const Phase phase(world.group(), "preparing the GPU", Phase::Kind::work);
  std::unique_ptr<ops::Ops> ops;
  const ops::CudaArithmetic arithmetic{.values = options.precision.half.value_or(DType::float32),
                                       .tf32 = options.precision.tf32};
  agree(world.group(), [&] { ops = ops::make_cuda_ops(*group.gpu(), arithmetic, group.deadline()); });
  cli::warn_of(world, options.program, require_equal(world.group(), {{"GPU kernels by", ops->arithmetic(), true}}));
  return ops;
}

}  // namespace

std::int64_t largest_leaf(const Options& options, Count batch, int ranks) {
  const ops::StepOptions& step = options.trainer.step;
  const std::int64_t parts = std::int64_t{step.shards > 0 ? step.shards : ranks} * step.accumulate;
  return (batch.value + parts - 1) / parts;
}

Computation prepare_computation(const Cluster& cluster, const Options& options, const Data& data,
                                const ModelOnDevice& model, const ProcessGroup& group, Console& console) {
  const World& world = cluster.world;
  // Shards run side by side, each on one thread, because the bits of a shard depend on its number of threads.
  const int threads = options.trainer.step.shards > 0 ? 1 : cluster.threads;
  Computation computation{.library = options.library.name};
  if (group.gpu()) {
    computation.ops = make_ops_on_gpu(world, options, group);
    computation.library = computation.ops->name();
  } else {
    computation.ops = make_ops(options.library, options.precision, threads, options.exact);
  }
  console.phase("preparing kernels");
  if (!options.kernels.empty()) {
    const std::int64_t samples = largest_leaf(options, data.batch, world.size());
    computation.kernels = use_kernel_choices(world, options, model, *computation.ops, threads, samples);
  }
  return computation;
}

}  // namespace lockstep::train
