// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/types.hpp"
#include "platform/machine/cpu_set.hpp"

namespace lockstep {

struct Package {
  std::string model;  ///< e.g. "AMD EPYC 9554 64-Core Processor"; may be empty in a virtual machine
  CpuSet pus;
};

struct NumaNode {
  int number = 0;  ///< as the operating system counts
  Bytes memory;
  CpuSet pus;
};

struct Cache {
  int level = 1;  ///< data and unified caches only
  Bytes size;
  CpuSet pus;  ///< that share it
};

struct Gpu {
  std::string name;        ///< the operating system's or driver's, e.g. "cuda0"; empty where only PCI knows it
  std::string vendor;      ///< e.g. "NVIDIA Corporation"
  std::string model;       ///< e.g. "NVIDIA H100 80GB HBM3"
  std::string uuid;        ///< empty where unknown
  std::string pci_bus_id;  ///< "0000:17:00.0"
  CpuSet near_pus;         ///< the processing units it is attached to
};

/// What one machine is made of, discovered once and then a value. PUs are processing units (hardware threads), by the
/// operating system's numbers; those forbidden to this process by its container are left out.
struct Topology {
  CpuSet pus;
  std::vector<Package> packages;
  std::vector<NumaNode> numa_nodes;
  std::vector<CpuSet> cores;  ///< the PUs of each core; a core's number is its index here
  std::vector<Cache> caches;
  std::vector<Gpu> gpus;            ///< ordered by PCI bus id; discover_topology() keeps those visible to this process
  std::vector<Gpu> installed_gpus;  ///< all of the machine's, ordered by PCI bus id
  CpuSet bound_pus;  ///< where this process may run: what mpirun, Slurm or taskset bound it to; else all of `pus`

  /// Numbers of the cores that have any of these PUs.
  [[nodiscard]] CpuSet cores_of(const CpuSet& pus_asked) const;
};

/// The GPUs that a process sees whose CUDA_VISIBLE_DEVICES is `setting`, in the order of its device indices: all where
/// it is not set; else those listed, by index or by the beginning of their UUID, up to the first entry that names none,
/// or several.
/// @param all  ordered by PCI bus id, as CUDA numbers them (where GPUs differ, only with CUDA_DEVICE_ORDER=PCI_BUS_ID)
/// @source CUDA Programming Guide, "CUDA environment variables"
std::vector<Gpu> visible_gpus(const std::vector<Gpu>& all, const std::optional<std::string>& setting);

/// The machine this process runs on, with the GPUs visible to it. The binding it inherited is read and kept; lockstep
/// itself binds nothing.
/// @cost milliseconds to tenths of a second; not for every step
/// @throws Error{unsupported} if hwloc cannot read the machine
Topology discover_topology();

/// A machine from hwloc's XML, as `lstopo --of xml` writes it; `bound_pus` is all of it.
/// @throws Error{corrupt} if hwloc refuses the text
Topology topology_from_xml(const std::string& xml);

}  // namespace lockstep
