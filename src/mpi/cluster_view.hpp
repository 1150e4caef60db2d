// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/mpi/world.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"
#include "platform/machine/placement.hpp"
#include "platform/machine/topology.hpp"
#include "platform/ranks/placement_facts.hpp"

namespace lockstep {

/// The data that all ranks of a node know about it.
struct NodeView {
  std::vector<CpuSet> bound_pus;  ///< binding of each local rank
  std::optional<int> gpu;         ///< this rank's GPU, as an index into the topology's GPUs
  int threads = 1;                ///< threads of this rank that compute at the same time
  int spins_before_yield = 0;     ///< for `WaitPolicy`; 0 if local ranks have fewer processors than threads
};

/// Gathers the NodeView of this rank's node. Collective over the node.
/// @param threads_per_rank  number of threads of a rank that compute at the same time, ≥ 1
/// @throws Error{transport}
NodeView gather_node(const World& world, const Topology& topology, int threads_per_rank = 1);

/// One process of the job.
struct ProcessView {
  int rank = 0;
  int node = 0;
  int local_rank = 0;
  std::int64_t pid = 0;
  CpuSet pus;                 ///< PUs on which it may run
  CpuSet cores;               ///< cores of these PUs, by their number on the machine
  bool bound = false;         ///< whether these are fewer than all of the machine
  int threads = 1;            ///< threads that compute at the same time
  bool spins = false;         ///< whether OpenMP's threads spin while they wait
  std::optional<int> device;  ///< index of its GPU among those it sees; ranks may see different ones
  Gpu gpu;                    ///< valid only with `device`
};

struct HostInfo {
  std::string name;
  std::string machine;  ///< the same for hosts that are containers or namespaces of one machine
  Topology topology;    ///< `bound_pus` is that of its first rank
};

/// The whole job, for display.
struct ClusterView {
  std::vector<HostInfo> hosts;         ///< host of each node
  std::vector<ProcessView> processes;  ///< process of each rank
  std::vector<std::string> warnings;
};

/// Gathers the view of the whole job. Collective over the world. @return the view on rank 0, nothing on other ranks
/// @throws Error{transport}
std::optional<ClusterView> gather_cluster(const World& world, const Topology& topology, const NodeView& node);

/// Returns warnings about the binding of processes, their threads and their GPUs, machine by machine.
std::vector<std::string> binding_warnings(const ClusterView& view);

/// Formats host → process → global rank, local rank → device or cores, followed by warnings. Up to 32 processes have
/// one line each; with more, each host has one line. Lines longer than `columns` are broken. Ends with a newline.
std::string format_table(const ClusterView& view, std::size_t columns = 100);

/// Formats the view as one JSON object: {"ranks", "nodes", "warnings":[…], "hosts":[{"name", "machine", "node", "pus",
/// "packages":[…], "numa_nodes":[…], "cores":[…], "caches":[…], "gpus":[…], "processes":[{"rank", "node", "local_rank",
/// "pid", "pus", "cores", "bound", "gpu":{"device", "name", "vendor", "model", "uuid", "pci_bus_id", "near_pus"}}]}]}.
/// Sets of processors are texts like "0-3,8"; "gpu" is null without one. Ends with a newline.
std::string to_json(const ClusterView& view);

}  // namespace lockstep
