// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/cluster_view.hpp"

#include <unistd.h>

#include <fstream>
#include <map>

#include "lockstep/base/error.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/cluster_json.hpp"

namespace lockstep {
namespace {

/// A poll of an idle communicator takes well under a microsecond, which is about as long as waking a sleeping thread.
constexpr int spins_with_a_processor_each = 2000;

/// Returns the kernel's boot id, which is the same for two hosts that are containers or network namespaces of one
/// machine, and differs between machines.
std::string machine_identity(const std::string& host) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  return std::getline(file, id) ? id : host;
}

ProcessView this_process(const World& world, const Topology& topology, const NodeView& node) {
  ProcessView process{.rank = world.rank().value,
                      .node = world.place().node,
                      .local_rank = world.place().local_rank,
                      .pid = getpid(),
                      .pus = topology.bound_pus,
                      .cores = topology.cores_of(topology.bound_pus),
                      .bound = topology.bound_pus != topology.pus,
                      .device = node.gpu};
  if (node.gpu) process.gpu = topology.gpus.at(static_cast<std::size_t>(*node.gpu));
  return process;
}

}  // namespace

std::vector<GpuChoices> gather_gpu_choices(const MpiGroup& group, const Topology& topology) {
  nlohmann::json mine = {{"bound", topology.bound_pus.text()}, {"gpus", nlohmann::json::array()}};
  for (const Gpu& gpu : topology.gpus) mine["gpus"].push_back({gpu.pci_bus_id, gpu.uuid, gpu.near_pus.text()});
  std::vector<GpuChoices> all;
  for (const std::string& text : all_gather_strings(group, mine.dump())) {
    const auto record = nlohmann::json::parse(text);
    GpuChoices& rank = all.emplace_back();
    rank.bound = CpuSet::parse(record.at("bound").get<std::string>());
    for (const auto& gpu : record.at("gpus")) {
      rank.visible.push_back(
          {.uuid = gpu.at(1), .pci_bus_id = gpu.at(0), .near_pus = CpuSet::parse(gpu.at(2).get<std::string>())});
    }
  }
  return all;
}

NodeView gather_node(const World& world, const Topology& topology, int threads_per_rank) {
  NodeView view;
  const std::vector<GpuChoices> ranks = gather_gpu_choices(world.node_group(), topology);
  for (const GpuChoices& rank : ranks) view.bound_pus.push_back(rank.bound);
  view.gpu = assign_gpus(ranks)[static_cast<std::size_t>(world.place().local_rank)];
  view.spins_before_yield = oversubscribed(view.bound_pus, threads_per_rank) ? 0 : spins_with_a_processor_each;
  return view;
}

std::optional<ClusterView> gather_cluster(const World& world, const Topology& topology, const NodeView& node) {
  nlohmann::json mine = {{"process", process_to_json(this_process(world, topology, node))}};
  if (world.place().local_rank == 0) {
    mine["host"] =
        host_to_json({.name = world.host(), .machine = machine_identity(world.host()), .topology = topology});
  }
  const auto records = gather_strings(world.group(), mine.dump(), Rank{0});
  if (world.rank() != Rank{0}) return std::nullopt;

  ClusterView view;
  for (const std::string& text : records) {
    const auto record = nlohmann::json::parse(text);
    view.processes.push_back(process_from_json(record.at("process")));
    // Nodes are numbered by their lowest rank, so the hosts arrive in the order of nodes.
    if (record.contains("host")) view.hosts.push_back(host_from_json(record.at("host")));
  }
  view.warnings = binding_warnings(view);
  return view;
}

std::vector<std::string> binding_warnings(const ClusterView& view) {
  struct Machine {
    const HostView* host = nullptr;
    std::vector<int> ranks;
    std::vector<CpuSet> bound;
  };
  std::map<std::string, Machine> machines;
  for (const ProcessView& process : view.processes) {
    const HostView& host = view.hosts[static_cast<std::size_t>(process.node)];
    Machine& machine = machines[host.machine];
    if (machine.host == nullptr) machine.host = &host;
    machine.ranks.push_back(process.rank);
    machine.bound.push_back(process.pus);
  }
  std::vector<std::string> warnings;
  for (const auto& [identity, machine] : machines) {
    const auto warning = binding_warning(machine.host->topology, machine.ranks, machine.bound);
    if (warning) warnings.push_back(machine.host->name + ": " + *warning);
  }
  return warnings;
}

}  // namespace lockstep
