// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hwloc.h>

#include <vector>

#include "platform/machine/topology.hpp"

namespace lockstep {

/// Every GPU hwloc knows, one entry per PCI device, ordered by bus id. A PCI device counts as a GPU where a driver's
/// back end says so (CUDA, NVML, RSMI, Level Zero), or else where it is a display or 3D controller of a maker of
/// compute GPUs: hwloc as Debian builds it has no CUDA back end, but always reads PCI. Consoles of virtual machines and
/// board management are neither.
std::vector<Gpu> discover_gpus(hwloc_topology_t topology);

}  // namespace lockstep
