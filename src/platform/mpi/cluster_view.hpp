// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/platform/mpi/mpi_group.hpp"
#include "lockstep/platform/mpi/world.hpp"
#include "platform/machine/placement.hpp"
#include "platform/machine/topology.hpp"

namespace lockstep {

/// This rank's node as its ranks see it together.
struct NodeView {
  std::vector<CpuSet> bound_pus;  ///< by local rank
  std::optional<int> gpu;         ///< this rank's, as an index into the topology's GPUs
  int spins_before_yield = 0;     ///< advice for `WaitPolicy`: 0 where local ranks outnumber their processors
};

/// What each rank of a group chooses its GPU by, by rank: `gpus` of its topology, and what it is bound to. Collective
/// over the group. @throws Error{transport}
std::vector<GpuChoices> gather_gpu_choices(const MpiGroup& group, const Topology& topology);

/// Collective over the node. @param threads_per_rank ≥ 1, that compute at the same time
/// @throws Error{transport}
NodeView gather_node(const World& world, const Topology& topology, int threads_per_rank = 1);

/// One process of the job.
struct ProcessView {
  int rank = 0;
  int node = 0;
  int local_rank = 0;
  std::int64_t pid = 0;
  CpuSet pus;                 ///< that it may run on
  CpuSet cores;               ///< those PUs' cores, by number on its machine
  bool bound = false;         ///< whether that is less than the whole machine
  std::optional<int> device;  ///< index of its GPU among those it sees; tasks may see different ones
  Gpu gpu;                    ///< meaningful with `device` only
};

struct HostView {
  std::string name;
  std::string machine;  ///< the same for "hosts" that are containers or namespaces of one machine
  Topology topology;    ///< `bound_pus` is its first rank's
};

/// The whole job, as a person wants to see it.
struct ClusterView {
  std::vector<HostView> hosts;         ///< by node index
  std::vector<ProcessView> processes;  ///< by rank
  std::vector<std::string> warnings;
};

/// Collective over the world. @return the view on rank 0, nothing elsewhere
/// @throws Error{transport}
std::optional<ClusterView> gather_cluster(const World& world, const Topology& topology, const NodeView& node);

/// Warnings about the binding of processes, machine by machine.
std::vector<std::string> binding_warnings(const ClusterView& view);

/// Host → process → global rank, local rank → device or cores; warnings beneath. One line a process up to 32 processes,
/// one line a host beyond; what is longer than `columns` is broken. Ends with a newline.
std::string format_table(const ClusterView& view, std::size_t columns = 100);

/// The same as one JSON object: {"ranks", "nodes", "warnings":[…], "hosts":[{"name", "machine", "node", "pus",
/// "packages":[…], "numa_nodes":[…], "cores":[…], "caches":[…], "gpus":[…], "processes":[{"rank", "node", "local_rank",
/// "pid", "pus", "cores", "bound", "gpu":{"device", "name", "vendor", "model", "uuid", "pci_bus_id", "near_pus"}}]}]}.
/// Sets of processors are texts like "0-3,8"; "gpu" is null without one. Ends with a newline.
std::string to_json(const ClusterView& view);

}  // namespace lockstep
