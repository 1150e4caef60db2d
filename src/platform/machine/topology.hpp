// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/types.hpp"

namespace lockstep {

/// A set of processors by number: processing units (hardware threads) as the operating system counts them, or cores.
class CpuSet {
 public:
  CpuSet() = default;
  /// @param numbers  ≥ 0, in any order, repeats allowed
  explicit CpuSet(std::vector<int> numbers);

  /// Reads "0-3,8", the format of taskset and Slurm; the empty string is the empty set.
  /// @throws Error{invalid_argument}
  static CpuSet parse(std::string_view text);
  /// Formats the set as "0-3,8".
  [[nodiscard]] std::string text() const;

  [[nodiscard]] const std::vector<int>& numbers() const { return numbers_; }  ///< ascending
  [[nodiscard]] int size() const { return static_cast<int>(numbers_.size()); }
  [[nodiscard]] bool empty() const { return numbers_.empty(); }
  [[nodiscard]] bool includes(const CpuSet& other) const;
  [[nodiscard]] bool intersects(const CpuSet& other) const { return !(*this & other).empty(); }

  friend CpuSet operator&(const CpuSet& a, const CpuSet& b);
  friend CpuSet operator|(const CpuSet& a, const CpuSet& b);
  friend bool operator==(const CpuSet&, const CpuSet&) = default;
  /// An arbitrary order, for sorted containers.
  friend bool operator<(const CpuSet& a, const CpuSet& b) { return a.numbers_ < b.numbers_; }

 private:
  std::vector<int> numbers_;
};

struct Package {
  std::string model;  ///< e.g. "AMD EPYC 9554 64-Core Processor"; may be empty in a virtual machine
  CpuSet pus;
};

struct NumaNode {
  int number = 0;  ///< number in the operating system
  Bytes memory;
  CpuSet pus;
};

struct Cache {
  int level = 1;  ///< data and unified caches only
  Bytes size;
  CpuSet pus;  ///< PUs that share it
};

struct Gpu {
  std::string name;        ///< name in the operating system or driver, e.g. "cuda0"; empty if only PCI knows the GPU
  std::string vendor;      ///< e.g. "NVIDIA Corporation"
  std::string model;       ///< e.g. "NVIDIA H100 80GB HBM3"
  std::string uuid;        ///< empty if unknown
  std::string pci_bus_id;  ///< "0000:17:00.0"
  CpuSet near_pus;         ///< the processing units it is attached to
};

/// The structure of one machine, discovered once and then constant. PUs are processing units (hardware threads),
/// numbered as in the operating system, without those that its container forbids to this process.
struct Topology {
  CpuSet pus;
  std::vector<Package> packages;
  std::vector<NumaNode> numa_nodes;
  std::vector<CpuSet> cores;        ///< the PUs of each core; a core's number is its index here
  std::vector<Cache> caches;        ///< in the order of their levels
  std::vector<Gpu> gpus;            ///< ordered by PCI bus id; discover_topology() keeps those visible to this process
  std::vector<Gpu> installed_gpus;  ///< all GPUs of the machine, ordered by PCI bus id
  CpuSet bound_pus;  ///< PUs on which this process may run: its binding by mpirun, Slurm or taskset; otherwise `pus`

  /// Numbers of the cores that have any of these PUs.
  [[nodiscard]] CpuSet cores_of(const CpuSet& pus_asked) const;
};

/// Returns the GPUs that a process with `setting` as CUDA_VISIBLE_DEVICES sees, in the order of its device indices. If
/// it is not set, these are all; otherwise those that it lists, by index or by the beginning of their UUID, up to the
/// first entry that matches no GPU or several.
/// @param all  ordered by PCI bus id, as CUDA numbers them (where GPUs differ, only with CUDA_DEVICE_ORDER=PCI_BUS_ID)
/// @source CUDA Programming Guide, "CUDA environment variables"
std::vector<Gpu> visible_gpus(const std::vector<Gpu>& all, const std::optional<std::string>& setting);

/// Returns the machine that this process runs on, with the GPUs visible to it. It reads the inherited binding and does
/// not change it; lockstep binds nothing itself.
/// @cost milliseconds to tenths of a second; not for every step
/// @throws Error{unsupported} if hwloc cannot read the machine
Topology discover_topology();

/// The PUs on which this process may run.
/// @cost a system call
CpuSet bound_pus();

/// Returns the `caches` of this machine, and reads nothing else.
/// @cost a fraction of that of discover_topology()
/// @throws Error{unsupported} as discover_topology
std::vector<Cache> discover_caches();

/// Returns the PUs of the largest cache that all of `pus` share; empty if they share none.
/// @param caches  in the order of their levels
CpuSet last_level_cache(std::span<const Cache> caches, const CpuSet& pus);

/// Reads a machine from hwloc's XML, as `lstopo --of xml` writes it; `bound_pus` are all PUs.
/// @throws Error{corrupt} if hwloc refuses the text
Topology topology_from_xml(const std::string& xml);

/// The version of the hwloc library that this process runs with, e.g. "2.9.0".
std::string hwloc_library_version();

/// The processor's model as the kernel names it, e.g. "AMD EPYC 9554 64-Core Processor"; "unknown" if it does not.
/// @cost much less than discover_topology()
std::string processor_model();

}  // namespace lockstep
