// SPDX-License-Identifier: Apache-2.0
#include "apps/train/kernel_choices.hpp"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <optional>
#include <thread>

#include "base/text_file.hpp"
#include "nn/plan/choose.hpp"
#include "platform/machine/topology.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/phase.hpp"

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
  char text[160];
  std::snprintf(
      text, sizeof text, ": %zu operators (%d known, %d measured in %.1f s%s), hash ", chosen.choices.size(),
      chosen.known, chosen.measured, chosen.seconds,
      chosen.left > 0 ? (", " + std::to_string(chosen.left) + " left to the rule: time was over").c_str() : "");
  return "kernels by " + path + text + chosen.choices.hash() + '\n';
}

nn::MeasuredChoices read_and_measure(const Options& options, const nn::Graph& graph, ops::Ops& ops, int threads,
                                     int ranks) {
  const SharedTextFile file(options.kernels);
  const nn::MeasureOptions choose{.dtype = options.trainer.precision,
                                  .samples = largest_leaf(options, ranks),
                                  .synchronized = options.trainer.sync_batch_norm,
                                  .passes = options.trainer.passes,
                                  .seconds = time_limit(ops).count()};
  const std::string conditions = conditions_of(ops, threads, choose.dtype);
  nn::MeasuredChoices chosen =
      nn::measure_kernels(graph, ops, choose, parsed(file.read(), options.kernels)[conditions]);
  if (chosen.measured > 0) {
    file.update([&](const std::optional<std::string>& present) {  // keeps what another job has added meanwhile
      ops::KernelChoicesByConditions all = parsed(present, options.kernels);
      all[conditions].add(chosen.choices);
      return ops::format_choices_file(all);
    });
  }
  return chosen;
}

}  // namespace

std::int64_t largest_leaf(const Options& options, int ranks) {
  const std::int64_t shards = options.trainer.step.shards > 0 ? options.trainer.step.shards : ranks;
  const std::int64_t parts = shards * options.trainer.step.accumulate;
  return (options.trainer.batch.value + parts - 1) / parts;
}

std::string use_kernel_choices(const World& world, const Options& options, const nn::Graph& graph, ops::Ops& ops,
                               int threads) {
  nn::MeasuredChoices chosen;
  const Phase phase(world.group(), "measuring kernels for '" + options.kernels + "'", Phase::Kind::work,
                    time_limit(ops));
  agree_on_rank_zero(world.group(), [&] { chosen = read_and_measure(options, graph, ops, threads, world.size()); });
  const std::string text = broadcast_string(world.group(), chosen.choices.text(), {0});
  agree(world.group(), [&] { ops.use(ops::KernelChoices::parse(text, options.kernels)); });
  return world.rank() == Rank{0} ? line_about(options.kernels, chosen) : std::string();
}

}  // namespace lockstep::train
