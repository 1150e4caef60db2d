// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "base/wrapped.hpp"
#include "mpi/cluster_view.hpp"

namespace lockstep {
namespace {

constexpr std::size_t most_processes_in_full = 32;
constexpr std::size_t text_column = 26;  // column of the text about a process, behind its numbers

std::string count_of(std::size_t number, const std::string& thing) {
  return std::to_string(number) + ' ' + thing + (number == 1 ? "" : "s");
}

/// Counts equal names: "4 × NVIDIA H100, 1 × NVIDIA T4".
std::string tally(const std::vector<std::string>& names) {
  std::map<std::string, int> counts;
  for (const std::string& name : names) ++counts[name];
  std::string text;
  for (const auto& [name, count] : counts) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " × " + name;
  }
  return text;
}

std::string gpu_label(const Gpu& gpu) {
  if (!gpu.model.empty()) return gpu.model;
  return gpu.vendor.empty() ? "GPU" : gpu.vendor + " GPU";
}

std::string memory(const Topology& topology) {
  double bytes = 0;
  for (const NumaNode& node : topology.numa_nodes) bytes += static_cast<double>(node.memory.value);
  return format_text("%.0f GiB", bytes / (1024.0 * 1024.0 * 1024.0));
}

/// Describes a host: "node1: 2 × AMD EPYC, 128 cores, 256 PUs, 2 NUMA nodes, 755 GiB; 4 × NVIDIA H100".
std::string describe(const HostInfo& host) {
  const Topology& topology = host.topology;
  std::vector<std::string> packages;
  for (const Package& package : topology.packages) packages.push_back(package.model.empty() ? "CPU" : package.model);
  std::vector<std::string> gpus;
  for (const Gpu& gpu : topology.gpus) gpus.push_back(gpu_label(gpu));
  std::string text = host.name + ": ";
  if (!packages.empty()) text += tally(packages) + ", ";
  text += count_of(topology.cores.size(), "core") + ", " +
          count_of(static_cast<std::size_t>(topology.pus.size()), "PU") + ", " +
          count_of(topology.numa_nodes.size(), "NUMA node") + ", " + memory(topology);
  if (!gpus.empty()) text += "; " + tally(gpus);
  return text;
}

std::string cores_of(const ProcessView& process) {
  return (process.cores.size() == 1 ? "core " : "cores ") + process.cores.text() + (process.bound ? "" : ", not bound");
}

std::string device_or_cores(const ProcessView& process) {
  std::string cores = cores_of(process);
  if (!process.device) return cores;
  const Gpu& gpu = process.gpu;
  return "GPU " + std::to_string(*process.device) + ' ' + gpu_label(gpu) + " (" + gpu.pci_bus_id + "); " + cores;
}

std::string line_of(const ProcessView& process) {
  return format_text("  %6d %6d %8lld  ", process.rank, process.local_rank, static_cast<long long>(process.pid)) +
         device_or_cores(process);
}

/// Describes all processes of a host in one line: "  8 ranks, 8-15: GPUs 0-7; cores 0-63".
std::string summary_of(const std::vector<const ProcessView*>& processes) {
  std::vector<int> ranks;
  std::vector<int> gpus;
  CpuSet cores;
  bool bound = false;
  for (const ProcessView* process : processes) {
    ranks.push_back(process->rank);
    if (process->device) gpus.push_back(*process->device);
    cores = cores | process->cores;
    bound = bound || process->bound;
  }
  std::string text = "  " + count_of(ranks.size(), "rank") + ", " + CpuSet(ranks).text() + ": ";
  if (!gpus.empty()) text += "GPUs " + CpuSet(gpus).text() + "; ";
  return text + "cores " + cores.text() + (bound ? "" : ", not bound");
}

}  // namespace

std::string format_table(const ClusterView& view, std::size_t columns) {
  const bool in_full = view.processes.size() <= most_processes_in_full;
  std::string text = count_of(view.processes.size(), "rank") + " on " + count_of(view.hosts.size(), "node") + '\n';
  if (in_full) text += "    rank  local      pid  device or cores\n";
  for (std::size_t node = 0; node < view.hosts.size(); ++node) {
    const HostInfo& host = view.hosts[node];
    text += wrapped(describe(host), columns, 4);
    std::vector<const ProcessView*> here;
    for (const ProcessView& process : view.processes) {
      if (process.node == static_cast<int>(node)) here.push_back(&process);
    }
    if (!in_full) text += wrapped(summary_of(here), columns, 4);
    for (std::size_t i = 0; in_full && i < here.size(); ++i) text += wrapped(line_of(*here[i]), columns, text_column);
  }
  for (const std::string& warning : view.warnings) text += wrapped("warning: " + warning, columns);
  return text;
}

}  // namespace lockstep
