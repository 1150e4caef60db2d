// SPDX-License-Identifier: Apache-2.0
// comm-bench times collectives and checks their results. Exit codes: ExitCode in lockstep/mpi/world.hpp.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "apps/cli/facts.hpp"
#include "apps/cli/run_app.hpp"
#include "apps/cli/version.hpp"
#include "apps/comm-bench/contenders.hpp"
#include "apps/comm-bench/tune.hpp"
#include "apps/comm-bench/workplaces.hpp"
#include "mpi/cluster_view.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/phase.hpp"

namespace lockstep::comm_bench {
namespace {

/// Writes a file on rank 0, and reports the outcome to every rank. Without text the file is only opened, and keeps its
/// contents.
/// @throws Error{io} on every rank
void write_json(const World& world, const std::string& path, const std::optional<std::string>& text) {
  const Phase phase(world.group(), "writing '" + path + "'", Phase::Kind::work);
  agree_on_rank_zero(world.group(), [&] {
    if (path.empty()) return;
    std::ofstream file(path, text ? std::ios::trunc : std::ios::app);
    if (text) file << *text;
    file.close();
    if (!file) throw Error(ErrorCode::io, "cannot write '" + path + "': " + std::strerror(errno));
  });
}

void print(const World& world, const std::string& text) {
  if (world.rank() != Rank{0}) return;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

Subject subject_of(const World& world, const Options& options) {
  return {.op = options.op, .dtype = options.dtype, .ranks = world.size(), .device = name(options.group.device)};
}

/// Measures every contender at every size, and prints each result at once.
std::vector<Measurement> measure_all(const World& world, const Options& options) {
  const std::vector<Count> counts = counts_of(options, world.size());
  Exercise::Shape shape{options.op, options.dtype, world.rank(), world.size(), counts.back()};
  require_memory(world, Exercise::memory_needed(shape));
  const Contenders contenders = make_contenders(world, options);
  std::optional<Workplaces> workplaces(std::in_place, contenders, shape, options.buffers);
  const Subject subject = subject_of(world, options);
  print(world, table_head(subject, "comm-bench " + cli::commit(), world.shape().nodes()));
  GroupRanks ranks(world.group());
  std::vector<Measurement> all;
  for (const Count count : counts) {
    shape.part = count;
    for (Measurement& m : measure(ranks, contenders, workplaces->exercises(shape), options.effort)) {
      print(world, table_line(subject, m));
      all.push_back(std::move(m));
    }
  }
  workplaces.reset();
  for (const auto& contender : contenders) contender->close();
  return all;
}

NodeView gather_node_view(const World& world) {
  const Phase phase(world.group(), "comparing processors on the node");
  return gather_node(world, discover_topology());
}

int run(const World& world, const Options& options) {
  if (options.explain) {
    print(world, explanation(world, options));
    return exit_success;
  }
  if (!options.tune.empty()) {
    tune(world, options, [&](const std::string& text) { print(world, text); });
    return exit_success;
  }
  write_json(world, options.json, {});
  const std::vector<Measurement> all = measure_all(world, options);
  write_json(world, options.json, to_json(subject_of(world, options), all));
  if (const auto compared = compare_auto(all)) print(world, summary_line(*compared));
  const std::optional<std::string> wrong = complaint(all);
  if (!wrong) return exit_success;
  print(world, *wrong);
  return exit_error;
}

}  // namespace
}  // namespace lockstep::comm_bench

int main(int argc, char** argv) {
  lockstep::comm_bench::Options options;
  std::optional<lockstep::UsageError> mistake;
  try {
    options = lockstep::comm_bench::parse_options(argc, argv);
  } catch (const lockstep::UsageError& error) {
    mistake = error;
  }
  if (options.prediction) options.to_print = lockstep::comm_bench::prediction_text(*options.prediction);
  if (!options.to_print.empty()) return lockstep::cli::print_once("comm-bench", options.to_print);
  return lockstep::run({.deadline = options.group.deadline, .program = "comm-bench"}, [&](lockstep::World& world) {
    std::vector<lockstep::Term> settings = lockstep::cli::facts_of_process();
    settings.insert(settings.end(), options.settings.begin(), options.settings.end());
    lockstep::cli::require_same_start(world, "comm-bench", mistake ? mistake->what() : "", settings);
    const lockstep::NodeView node = lockstep::comm_bench::gather_node_view(world);
    options.group.wait = lockstep::make_wait_policy(options.waiting, node.spins_before_yield);
    options.effort.yields = options.waiting == "yield";
    return lockstep::comm_bench::run(world, options);
  });
}
