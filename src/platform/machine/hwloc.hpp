// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hwloc.h>

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "platform/machine/cpu_set.hpp"
#include "platform/machine/topology.hpp"

namespace lockstep {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyTopology>;

/// Converts a bitmap; returns the empty set if it is absent or infinite.
CpuSet to_cpu_set(hwloc_const_bitmap_t bitmap);

/// Returns an info attribute of an object; empty if it has none of that name.
std::string info(hwloc_obj_t object, const char* key);

/// Returns all GPUs that hwloc knows, one entry per PCI device, ordered by bus id. A PCI device counts as a GPU if a
/// driver's back end says so (CUDA, NVML, RSMI, Level Zero), or if it is a display or 3D controller of a vendor of
/// compute GPUs: hwloc as built by Debian has no CUDA back end, but always reads PCI. Consoles of virtual machines and
/// of board management are not GPUs by these rules.
std::vector<Gpu> discover_gpus(hwloc_topology_t topology);

}  // namespace lockstep
