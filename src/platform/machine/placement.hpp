// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "platform/machine/topology.hpp"

/// Pure functions that map one node's topology and the binding of its ranks to the resources of each rank.
namespace lockstep {

/// The input for choosing the GPU of one rank.
struct GpuChoices {
  std::vector<Gpu> visible;  ///< in the order of the runtime's device indices; may differ between ranks
  CpuSet bound;              ///< PUs on which the rank may run
};

/// Returns the GPU of each local rank, as an index into its own list; nothing for a rank that sees none.
///
/// No GPU is assigned twice if that is possible. Ranks with the smallest cpusets choose first, then the lower local
/// rank; each takes the first free GPU near its processors. Ranks that find none nearby take the first free one. If no
/// rank is bound and all see the same GPUs, each local rank gets the GPU of the same index. If there are too few GPUs,
/// each rank without its own shares the GPU with the index local rank modulo number of GPUs, which NCCL refuses.
/// @param ranks  the input of each local rank
std::vector<std::optional<int>> assign_gpus(std::span<const GpuChoices> ranks);

/// Completes the GPUs that the runtime shows with the data that hwloc has for the same PCI bus id. All instances of a
/// divided GPU have the same bus id. A GPU that hwloc does not know is near no processors.
/// @param seen   in the order of the runtime's device indices; its nonempty values are kept
/// @param known  the machine's GPUs
std::vector<Gpu> locate_gpus(std::vector<Gpu> seen, std::span<const Gpu> known);

/// Whether ranks have to take turns on processing units, so that a waiting rank must yield at once: some ranks are
/// bound within a set that has fewer PUs than they have threads.
/// @param bound             for each local rank, the PUs on which it may run
/// @param threads_per_rank  number of threads of a rank that compute at the same time, ≥ 1
bool oversubscribed(std::span<const CpuSet> bound, int threads_per_rank = 1);

/// Returns by how many consecutive ranks of a node to divide them, so that each deals with few others, most of them
/// near: a power of two close to the root of their number, or as many as share a cache if that is within a factor of
/// two of it; if possible one that divides their number. @return 0 for fewer than `least_ranks_by_cache` ranks
/// @param caches  for each rank, the PUs of its last-level cache; empty if that is not known
int ranks_per_cache(std::span<const CpuSet> caches);
/// With fewer ranks on a node it is not worth the additional synchronization (docs/performance.md).
inline constexpr int least_ranks_by_cache = 32;

/// Returns a sentence, with the remedy, if ranks were bound so that they share cores while other cores have no rank.
/// @param topology  the machine
/// @param ranks     global ranks, ascending
/// @param bound     for each of `ranks`, the PUs on which it may run
std::optional<std::string> binding_warning(const Topology& topology, std::span<const int> ranks,
                                           std::span<const CpuSet> bound);

/// How one rank uses its machine.
struct RankUse {
  int rank = 0;
  CpuSet pus;          ///< PUs on which it may run
  int threads = 1;     ///< threads that compute at the same time
  bool spins = false;  ///< whether these threads spin while they wait for each other, as OpenMP's do by default
  CpuSet near_gpu;     ///< PUs that its GPU is attached to; empty without a GPU, or if this is unknown
};

/// Returns warnings, each with its remedy, about ranks that disturb each other on one machine: partly overlapping
/// bindings, fewer PUs than threads, threads that spin on PUs that other ranks need.
/// @param ranks  all ranks of the machine, in ascending order
std::vector<std::string> crowding_warnings(const Topology& topology, std::span<const RankUse> ranks);

/// Returns a warning for each rank that is bound away from the PUs of its GPU.
std::vector<std::string> distant_gpu_warnings(std::span<const RankUse> ranks);

}  // namespace lockstep
