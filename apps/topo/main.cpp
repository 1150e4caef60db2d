// SPDX-License-Identifier: Apache-2.0
// topo prints the cluster as the processes of a job see it. Exit codes: ExitCode in lockstep/mpi/world.hpp.
#include <cstdio>

#include "apps/cli/help.hpp"
#include "apps/cli/run_app.hpp"
#include "apps/cli/terminal.hpp"
#include "ddp/on_gpus.hpp"
#include "mpi/cluster_view.hpp"
#include "platform/ranks/phase.hpp"

namespace lockstep::topo {
namespace {

using namespace cli;

Program describe(bool& json) {
  return {.name = "topo",
          .synopsis = "[mpirun -np RANKS] topo [--json]",
          .about =
              "Prints where each process of the job runs: host, global and local rank, and the device that a group on "
              "GPUs takes or the cores.",
          .groups = {
              {"Options",
               {row("json", Switch{}, "no", "print one JSON object instead of a table", into(json), Scope::each_rank)}},
              general_options()}};
}

int show_cluster(World& world, bool json) {
  const Phase phase(world.group(), "showing the cluster", Phase::Kind::work);
  const auto topology = ddp::machine_with_gpus();
  const auto node = gather_node(world, topology);
  if (const auto cluster = gather_cluster(world, topology, node))
    std::fputs((json ? to_json(*cluster) : format_table(*cluster, table_columns())).c_str(), stdout);
  return exit_success;
}

}  // namespace
}  // namespace lockstep::topo

int main(int argc, char** argv) {
  bool json = false;
  return lockstep::cli::run_app(lockstep::topo::describe(json), argc, argv,
                                {.thread_level = lockstep::ThreadLevel::single},
                                [&](lockstep::World& world) { return lockstep::topo::show_cluster(world, json); });
}
