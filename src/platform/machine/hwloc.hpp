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

/// The empty set for a bitmap that is absent or endless.
CpuSet to_cpu_set(hwloc_const_bitmap_t bitmap);

/// An object's info attribute; empty where it has none of that name.
std::string info(hwloc_obj_t object, const char* key);

}  // namespace lockstep
