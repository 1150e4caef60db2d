// SPDX-License-Identifier: Apache-2.0
// topo prints the cluster as the processes of a job see it. Exit codes: ExitCode in lockstep/platform/mpi/world.hpp.
#include <cstdio>
#include <string>

#include "apps/common/facts.hpp"
#include "apps/common/help.hpp"
#include "apps/common/run_app.hpp"
#include "apps/common/same_options.hpp"
#include "apps/common/terminal.hpp"
#include "ddp/on_gpus.hpp"
#include "platform/mpi/cluster_view.hpp"
#include "platform/mpi/phase.hpp"

namespace {

lockstep::Program describe() {
  return {.name = "topo",
          .synopsis = "[mpirun -np RANKS] topo [--json]",
          .about =
              "Prints where each process of the job runs: host, global and local rank, and the device that a group on "
              "GPUs takes or the cores.",
          .groups = {{"Options",
                      {{.name = "json",
                        .domain = lockstep::Switch{},
                        .help = "print one JSON object instead of a table",
                        .otherwise = "no"}}},
                     lockstep::general_options()}};
}

int show_cluster(lockstep::World& world, bool json) {
  const lockstep::Phase phase(world.group(), "showing the cluster", lockstep::Phase::Kind::work);
  const auto topology = lockstep::ddp::machine_with_gpus();
  const auto node = lockstep::gather_node(world, topology);
  const auto cluster = lockstep::gather_cluster(world, topology, node);
  if (cluster) {
    const std::string text =
        json ? lockstep::to_json(*cluster) : lockstep::format_table(*cluster, lockstep::table_columns());
    std::fputs(text.c_str(), stdout);
  }
  return lockstep::exit_success;
}

}  // namespace

int main(int argc, char** argv) {
  const lockstep::Program program = describe();
  lockstep::OptionValues values(program);
  std::string mistake;
  try {
    values = lockstep::read_command_line(argc, argv, program);
  } catch (const lockstep::UsageError& error) {
    mistake = error.what();
  }
  const std::string to_print = lockstep::requested_text(values, program);
  if (!to_print.empty()) return lockstep::print_once("topo", to_print);
  return lockstep::run_app("topo", {.thread_level = lockstep::ThreadLevel::single}, [&](lockstep::World& world) {
    lockstep::require_same_start(world, "topo", mistake, lockstep::facts_of_process());
    return show_cluster(world, values.get<bool>("json"));
  });
}
