// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hwloc.h>

#include <memory>
#include <string>
#include <type_traits>

#include "platform/machine/cpu_set.hpp"

namespace lockstep {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyTopology>;

/// Converts a bitmap; returns the empty set if it is absent or infinite.
CpuSet to_cpu_set(hwloc_const_bitmap_t bitmap);

/// Returns an info attribute of an object; empty if it has none of that name.
std::string info(hwloc_obj_t object, const char* key);

}  // namespace lockstep
