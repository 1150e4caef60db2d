// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hwloc.h>

#include <vector>

#include "platform/machine/topology.hpp"

namespace lockstep {

/// Returns all GPUs that hwloc knows, one entry per PCI device, ordered by bus id. A PCI device counts as a GPU if a
/// driver's back end says so (CUDA, NVML, RSMI, Level Zero), or if it is a display or 3D controller of a vendor of
/// compute GPUs: hwloc as built by Debian has no CUDA back end, but always reads PCI. Consoles of virtual machines and
/// of board management are not GPUs by these rules.
std::vector<Gpu> discover_gpus(hwloc_topology_t topology);

}  // namespace lockstep
