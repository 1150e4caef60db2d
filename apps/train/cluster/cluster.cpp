// SPDX-License-Identifier: Apache-2.0
#include "apps/train/cluster/cluster.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <set>

#include "apps/cli/facts.hpp"
#include "apps/cli/terminal.hpp"
#include "base/nearest.hpp"
#include "ddp/on_gpus.hpp"
#include "kernels/instruction_set.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/ops/cuda.hpp"
#include "ops/onednn/library.hpp"
#include "platform/gpu/gpu.hpp"
#include "platform/machine/launch.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/phase.hpp"

namespace lockstep::train {
namespace {

/// Adds what CUDA says about the GPUs that this process may use. An error of CUDA takes the place of the facts: the
/// other ranks wait for this one, and later calls report it.
void add_gpus(std::vector<Term>& facts, bool same_bits) {
  try {
    std::set<std::string> models;
    const int gpus = gpu_count();
    for (int gpu = 0; gpu < gpus; ++gpu) models.insert(gpu_properties(gpu).name);
    std::string list;
    for (const std::string& model : models) list += (list.empty() ? "" : ", ") + model;
    facts.push_back({"GPUs", list.empty() ? "none" : list, !same_bits});
    if (gpus == 0) return;
    const GpuVersions versions = gpu_versions();
    facts.push_back({"GPU driver for CUDA", versions.driver, true});
    facts.push_back({"CUDA runtime", versions.runtime, true});
  } catch (const Error& error) {
    facts.push_back({"GPUs", error.message(), true});
  }
}

/// Returns the path of the file that rank 0 writes if any rank requests it; empty if none does.
/// @throws Error{mismatch} on every rank if ranks have different paths
std::string agreed_path(const World& world, const Agreement& start, const std::string& option) {
  const std::vector<std::string> all = start.fact(option);
  const auto is_given = [](const std::string& path) { return !path.empty(); };
  const auto first = std::ranges::find_if(all, is_given);
  if (first == all.end()) return {};
  const auto other =
      std::find_if(first, all.end(), [&](const std::string& path) { return is_given(path) && path != *first; });
  if (other == all.end()) return *first;
  const auto named = [&](auto place) {
    const Rank rank{static_cast<int>(place - all.begin())};
    return "rank " + std::to_string(rank.value) + " on " + world.group().host_of(rank) + " has " + option + ' ' +
           echo(*place, 400);
  };
  throw Error(ErrorCode::mismatch, named(other) + ", but " + named(first) + ": rank 0 writes one file for all ranks",
              {.peers = {static_cast<int>(other - all.begin())}})
      .on_every_rank();
}

int threads_of_this_rank(const Options& options, const World& world, const NodeView& node) {
  if (options.threads > 0) return options.threads;
  const auto mine = static_cast<std::size_t>(world.place().local_rank);
  const CpuSet& pus = node.bound_pus[mine];
  const auto sharing = std::ranges::count(node.bound_pus, pus);
  return std::max(1, static_cast<int>(pus.size() / std::max<std::ptrdiff_t>(1, sharing)));
}

/// Shows the ranks and their hosts. @return this rank's node
NodeView show_cluster(const World& world, const Options& options, const DeviceChoice& device, Console& console) {
  const Phase phase(world.group(), "showing the cluster");
  const bool on_gpus = device.device == Device::cuda;
  const Topology topology = on_gpus ? ddp::machine_with_gpus() : discover_topology();
  NodeView node = gather_node(world, topology, std::max(1, options.threads));
  if (!on_gpus) node.gpu.reset();
  // The group refuses a list that does not fit the host.
  const auto local_rank = static_cast<std::size_t>(world.place().local_rank);
  if (local_rank < device.gpus.size() && device.gpus[local_rank] < static_cast<int>(topology.gpus.size()))
    node.gpu = device.gpus[local_rank];
  node.threads = on_gpus ? 1 : threads_of_this_rank(options, world, node);
  const auto cluster = gather_cluster(world, topology, node);
  if (cluster) console.print(format_table(*cluster, cli::table_columns()) + "\n");
  return node;
}

/// Returns why the library for GPUs cannot compute the graph; empty if it can.
std::string why_not_this_graph(const nn::Graph& graph) {
  for (const nn::Node& node : graph.nodes()) {
    if (!ops::has_cuda_kernel(node.op))
      return "node '" + node.name + "' is '" + ops::text_of(node.op) + "', which has no kernel for GPUs";
  }
  return {};
}

/// Returns the choice of CPUs. @throws Error on every rank if GPUs were asked for
DeviceChoice on_cpus(const Options& options, std::string why) {
  if (options.device == "auto" && !options.precision.tf32) return {.why = std::move(why)};
  const std::string wish = options.device == "auto" ? "--precision tf32" : "--device " + options.device;
  throw Error(ErrorCode::unsupported,
              wish + ": the run cannot compute on GPUs: " + why + ". --device cpu computes on CPUs")
      .on_every_rank();
}

/// Chooses the device of all ranks. Collective. @throws Error on every rank if GPUs were asked for and cannot be used
DeviceChoice choose_device(const World& world, const Options& options) {
  if (options.device == "cpu") return {};
  const Phase phase(world.group(), "choosing the device");
  std::vector<int> gpus = listed_gpus(options.device);
  std::string why = options.cpu_reason;
  if (why.empty()) why = ddp::why_no_gpus(world.group(), ops::why_no_cuda_ops(), !gpus.empty());
  if (why.empty()) return {.device = Device::cuda, .gpus = std::move(gpus)};
  return on_cpus(options, std::move(why));
}

}  // namespace

std::vector<Term> facts_to_compare(const Options& options) {
  const bool wants_gpus = options.device != "cpu" && options.cpu_reason.empty();
  const cli::RunNature nature{.same_bits = options.trainer.step.shards > 0, .on_gpus = wants_gpus && gpu_count() > 0};
  std::vector<Term> facts = cli::facts_of_process(nature);
  // These kernels give the same bits with every instruction set, but not the loops of operators and not oneDNN.
  facts.push_back({"kernels for", kernels::widest_instruction_set().name, true});
  facts.push_back({"operators with", kernels::instruction_set_of_loops(), !nature.same_bits});
  if (options.library.name == "onednn") {
    facts.push_back({"compute library", ops::onednn::library_version(), !nature.same_bits});
    facts.push_back({"oneDNN for", ops::onednn::library_instruction_set(), !nature.same_bits});
  }
  if (wants_gpus) add_gpus(facts, nature.same_bits);
  return facts;
}

void add_paths(Agreement& start, const Options& options) {
  start.add_fact("--trace", options.trace);
  start.add_fact("--metrics", options.metrics);
  start.add_fact("--data-dir", options.data_dir + options.user_data.path);
}

Cluster join_cluster(World& world, const Options& options, const GlobalBatch& batch, const Agreement& start,
                     Console& console) {
  Cluster cluster{.world = world, .batch = batch};
  cluster.trace = agreed_path(world, start, "--trace");
  cluster.metrics = agreed_path(world, start, "--metrics");
  const std::vector<std::string> folders = start.fact("--data-dir");
  cluster.same_data_dir = std::ranges::adjacent_find(folders, std::not_equal_to<>()) == folders.end();
  cluster.device = choose_device(world, options);
  cluster.node = show_cluster(world, options, cluster.device, console);
  cluster.threads = threads_of_this_rank(options, world, cluster.node);
  return cluster;
}

void start_ranks(int argc, char** argv, const Options& options) {
  const std::size_t ranks = listed_gpus(options.device).size();
  if (ranks < 2 || process_number(read_environment())) return;
  std::string number = std::to_string(ranks);
  std::string launcher = "mpirun";
  std::string np = "-np";
  std::vector<char*> command{launcher.data(), np.data(), number.data()};
  command.insert(command.end(), argv, argv + argc);
  command.push_back(nullptr);
  execvp(launcher.c_str(), command.data());
  throw UsageError("--device " + options.device + " is for " + number +
                   " ranks, and mpirun, which would start them, is not found: put it in PATH, or start them yourself");
}

DeviceChoice device_for(const nn::Graph& graph, const Options& options, const DeviceChoice& chosen) {
  std::string why = chosen.device == Device::cpu ? "" : why_not_this_graph(graph);
  return why.empty() ? chosen : on_cpus(options, std::move(why));
}

}  // namespace lockstep::train
