// SPDX-License-Identifier: Apache-2.0
#include "mpi/cluster_view.hpp"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "lockstep/comm/progress.hpp"
#include "platform/machine/launch.hpp"
#include "platform/machine/topology_json.hpp"

namespace lockstep {

using nlohmann::json;

// A host with its machine, without its processes.
static void to_json(json& to, const HostInfo& host) {
  const Topology& topology = host.topology;
  to = {{"name", host.name},         {"machine", host.machine},
        {"pus", topology.pus},       {"packages", topology.packages},
        {"cores", topology.cores},   {"numa_nodes", topology.numa_nodes},
        {"caches", topology.caches}, {"gpus", topology.gpus}};
}
static void from_json(const json& from, HostInfo& host) {
  host.name = from.at("name");
  host.machine = from.at("machine");
  Topology& topology = host.topology;
  topology.pus = topology.bound_pus = from.at("pus");
  topology.packages = from.at("packages");
  topology.numa_nodes = from.at("numa_nodes");
  topology.cores = from.at("cores");
  topology.caches = from.at("caches");
  topology.gpus = from.at("gpus");
}

namespace {

/// Convert a process to JSON and back.
json process_to_json(const ProcessView& process) {
  json gpu = nullptr;
  if (process.device) {
    gpu = process.gpu;
    gpu["device"] = *process.device;
  }
  return {{"rank", process.rank},   {"node", process.node}, {"local_rank", process.local_rank},
          {"pid", process.pid},     {"pus", process.pus},   {"cores", process.cores},
          {"bound", process.bound}, {"gpu", std::move(gpu)}};
}

ProcessView process_from_json(const json& text) {
  ProcessView process{.rank = text.at("rank"),
                      .node = text.at("node"),
                      .local_rank = text.at("local_rank"),
                      .pid = text.at("pid"),
                      .pus = text.at("pus"),
                      .cores = text.at("cores"),
                      .bound = text.at("bound")};
  const json& gpu = text.at("gpu");
  if (!gpu.is_null()) {
    process.device = gpu.at("device").get<int>();
    process.gpu = gpu;
  }
  return process;
}

/// OpenMP's threads spin for a while by default.
bool openmp_spins() {
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  return policy == nullptr || (std::string(policy) != "passive" && std::string(policy) != "PASSIVE");
}

ProcessView this_process(const World& world, const Topology& topology, const NodeView& node) {
  ProcessView process{.rank = world.rank().value,
                      .node = world.place().node,
                      .local_rank = world.place().local_rank,
                      .pid = getpid(),
                      .pus = topology.bound_pus,
                      .cores = topology.cores_of(topology.bound_pus),
                      .bound = topology.bound_pus != topology.pus,
                      .threads = node.threads,
                      .spins = openmp_spins(),
                      .device = node.gpu};
  if (node.gpu) process.gpu = topology.gpus.at(static_cast<std::size_t>(*node.gpu));
  return process;
}

}  // namespace

NodeView gather_node(const World& world, const Topology& topology, int threads_per_rank) {
  NodeView view;
  Agreement agreement;
  add_gpu_choices(agreement, topology);
  agreement.exchange(world.node_group());
  const std::vector<GpuChoices> ranks = gpu_choices(agreement);
  for (const GpuChoices& rank : ranks) view.bound_pus.push_back(rank.bound);
  view.gpu = assign_gpus(ranks)[static_cast<std::size_t>(world.place().local_rank)];
  view.spins_before_yield = oversubscribed(view.bound_pus, threads_per_rank) ? 0 : WaitPolicy().spins_before_yield;
  return view;
}

std::optional<ClusterView> gather_cluster(const World& world, const Topology& topology, const NodeView& node) {
  const ProcessView process = this_process(world, topology, node);
  json mine = {{"process", process_to_json(process)}, {"threads", process.threads}, {"spins", process.spins}};
  if (world.place().local_rank == 0) {
    mine["host"] = HostInfo{.name = world.host(), .machine = machine_identity(world.host()), .topology = topology};
  }
  const auto records = gather_strings(world.group(), mine.dump(), Rank{0});
  if (world.rank() != Rank{0}) return std::nullopt;

  ClusterView view;
  for (const std::string& text : records) {
    const json record = json::parse(text);
    ProcessView& sent = view.processes.emplace_back(process_from_json(record.at("process")));
    sent.threads = record.at("threads");
    sent.spins = record.at("spins");
    // Nodes are numbered by their lowest rank, so the hosts arrive in the order of nodes.
    if (record.contains("host")) view.hosts.push_back(record.at("host"));
  }
  view.warnings = binding_warnings(view);
  return view;
}

std::vector<std::string> binding_warnings(const ClusterView& view) {
  struct Machine {
    const HostInfo* host = nullptr;
    std::vector<int> ranks;
    std::vector<CpuSet> bound;
    std::vector<RankUse> uses;
  };
  std::map<std::string, Machine> machines;
  for (const ProcessView& process : view.processes) {
    const HostInfo& host = view.hosts[static_cast<std::size_t>(process.node)];
    Machine& machine = machines[host.machine];
    if (machine.host == nullptr) machine.host = &host;
    machine.ranks.push_back(process.rank);
    machine.bound.push_back(process.pus);
    machine.uses.push_back({.rank = process.rank,
                            .pus = process.pus,
                            .threads = process.threads,
                            .spins = process.spins,
                            .near_gpu = process.device ? process.gpu.near_pus : CpuSet()});
  }
  std::vector<std::string> warnings;
  for (const auto& [identity, machine] : machines) {
    const Topology& topology = machine.host->topology;
    std::vector<std::string> found = distant_gpu_warnings(machine.uses);
    if (const auto binding = binding_warning(topology, machine.ranks, machine.bound)) {
      found.push_back(*binding);
    } else {
      for (const std::string& warning : crowding_warnings(topology, machine.uses)) found.push_back(warning);
    }
    for (const std::string& warning : found) warnings.push_back(machine.host->name + ": " + warning);
  }
  return warnings;
}

std::string to_json(const ClusterView& view) {
  json hosts = json::array();
  for (std::size_t node = 0; node < view.hosts.size(); ++node) {
    json host = view.hosts[node];
    host["node"] = node;
    host["processes"] = json::array();
    for (const ProcessView& process : view.processes) {
      if (process.node == static_cast<int>(node)) host["processes"].push_back(process_to_json(process));
    }
    hosts.push_back(std::move(host));
  }
  const json cluster = {{"ranks", view.processes.size()},
                        {"nodes", view.hosts.size()},
                        {"hosts", std::move(hosts)},
                        {"warnings", view.warnings}};
  return cluster.dump(2) + "\n";
}

}  // namespace lockstep
