// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/cluster_json.hpp"

namespace lockstep {
namespace {

using nlohmann::json;

CpuSet set_of(const json& text) { return CpuSet::parse(text.get<std::string>()); }

json gpu_to_json(const Gpu& gpu) {
  return {{"name", gpu.name}, {"vendor", gpu.vendor},         {"model", gpu.model},
          {"uuid", gpu.uuid}, {"pci_bus_id", gpu.pci_bus_id}, {"near_pus", gpu.near_pus.text()}};
}

Gpu gpu_from_json(const json& gpu) {
  return {.name = gpu.at("name"),
          .vendor = gpu.at("vendor"),
          .model = gpu.at("model"),
          .uuid = gpu.at("uuid"),
          .pci_bus_id = gpu.at("pci_bus_id"),
          .near_pus = set_of(gpu.at("near_pus"))};
}

template <typename Items, typename Convert>
json array_of(const Items& items, Convert convert) {
  json array = json::array();
  for (const auto& item : items) array.push_back(convert(item));
  return array;
}

json package_to_json(const Package& package) { return {{"model", package.model}, {"pus", package.pus.text()}}; }

json numa_to_json(const NumaNode& node) {
  return {{"number", node.number}, {"memory_bytes", node.memory.value}, {"pus", node.pus.text()}};
}

json cache_to_json(const Cache& cache) {
  return {{"level", cache.level}, {"size_bytes", cache.size.value}, {"pus", cache.pus.text()}};
}

}  // namespace

json host_to_json(const HostView& host) {
  const Topology& topology = host.topology;
  return {{"name", host.name},
          {"machine", host.machine},
          {"pus", topology.pus.text()},
          {"packages", array_of(topology.packages, package_to_json)},
          {"numa_nodes", array_of(topology.numa_nodes, numa_to_json)},
          {"cores", array_of(topology.cores, [](const CpuSet& core) { return core.text(); })},
          {"caches", array_of(topology.caches, cache_to_json)},
          {"gpus", array_of(topology.gpus, gpu_to_json)}};
}

HostView host_from_json(const json& host) {
  HostView view{.name = host.at("name"), .machine = host.at("machine")};
  Topology& topology = view.topology;
  topology.pus = set_of(host.at("pus"));
  topology.bound_pus = topology.pus;
  for (const auto& p : host.at("packages")) topology.packages.push_back({p.at("model"), set_of(p.at("pus"))});
  for (const auto& n : host.at("numa_nodes")) {
    topology.numa_nodes.push_back({n.at("number"), Bytes{n.at("memory_bytes")}, set_of(n.at("pus"))});
  }
  for (const auto& core : host.at("cores")) topology.cores.push_back(set_of(core));
  for (const auto& c : host.at("caches")) {
    topology.caches.push_back({c.at("level"), Bytes{c.at("size_bytes")}, set_of(c.at("pus"))});
  }
  for (const auto& gpu : host.at("gpus")) topology.gpus.push_back(gpu_from_json(gpu));
  return view;
}

json process_to_json(const ProcessView& process) {
  json gpu = nullptr;
  if (process.device) {
    gpu = gpu_to_json(process.gpu);
    gpu["device"] = *process.device;
  }
  return {{"rank", process.rank},   {"node", process.node},      {"local_rank", process.local_rank},
          {"pid", process.pid},     {"pus", process.pus.text()}, {"cores", process.cores.text()},
          {"bound", process.bound}, {"gpu", std::move(gpu)}};
}

ProcessView process_from_json(const json& text) {
  ProcessView process{.rank = text.at("rank"),
                      .node = text.at("node"),
                      .local_rank = text.at("local_rank"),
                      .pid = text.at("pid"),
                      .pus = set_of(text.at("pus")),
                      .cores = set_of(text.at("cores")),
                      .bound = text.at("bound")};
  const json& gpu = text.at("gpu");
  if (!gpu.is_null()) {
    process.device = gpu.at("device").get<int>();
    process.gpu = gpu_from_json(gpu);
  }
  return process;
}

std::string to_json(const ClusterView& view) {
  json hosts = json::array();
  for (std::size_t node = 0; node < view.hosts.size(); ++node) {
    json host = host_to_json(view.hosts[node]);
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
