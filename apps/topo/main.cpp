// SPDX-License-Identifier: Apache-2.0
// topo: prints the cluster as the processes of a job see it. Exit codes: apps/common/exit_codes.hpp.
#include <boost/program_options.hpp>
#include <cstdio>
#include <sstream>
#include <string>

#include "apps/common/command_line.hpp"
#include "apps/common/exit_codes.hpp"
#include "apps/common/run_app.hpp"
#include "apps/common/same_options.hpp"
#include "apps/common/terminal.hpp"
#include "apps/common/version.hpp"
#include "ddp/on_gpus.hpp"
#include "platform/mpi/cluster_view.hpp"
#include "platform/mpi/phase.hpp"

namespace {

namespace options = boost::program_options;

options::options_description description() {
  options::options_description flags("Options");
  flags.add_options()("json", "print one JSON object instead of a table")  //
      ("version", "print the versions of lockstep and of its libraries")   //
      ("help", "print this text");
  return flags;
}

std::string help_text() {
  std::ostringstream text;
  text << "Usage: [mpirun -np RANKS] topo [--json]\n"
       << "Prints where each process of the job runs: host, global and local rank, and the device that a group on\n"
       << "GPUs takes or the cores.\n\n"
       << description() << "\nExit codes: 0 success, 1 error, 2 wrong command line.\n";
  return text.str();
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
  options::variables_map flags;
  std::string mistake;
  try {
    flags = lockstep::read_command_line(argc, argv, description());
  } catch (const lockstep::UsageError& error) {
    mistake = error.what();
  }
  if (flags.count("help") != 0 || flags.count("version") != 0) {
    lockstep::print_once(flags.count("help") != 0 ? help_text() : lockstep::version_text("topo"));
    return lockstep::exit_success;
  }
  return lockstep::run_app("topo", {.thread_level = lockstep::ThreadLevel::single}, [&](lockstep::World& world) {
    lockstep::require_same_command_line(world, mistake, {});
    return show_cluster(world, flags.count("json") != 0);
  });
}
