// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/topology.hpp"

#include <hwloc.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "lockstep/base/error.hpp"
#include "platform/machine/hwloc.hpp"

namespace lockstep {

CpuSet to_cpu_set(hwloc_const_bitmap_t bitmap) {
  std::vector<int> numbers;
  if (bitmap == nullptr || hwloc_bitmap_weight(bitmap) < 0) return {};  // infinite: hwloc does not know
  for (int number = hwloc_bitmap_first(bitmap); number >= 0; number = hwloc_bitmap_next(bitmap, number)) {
    numbers.push_back(number);
  }
  return CpuSet(std::move(numbers));
}

std::string info(hwloc_obj_t object, const char* key) {
  const char* value = hwloc_obj_get_info_by_name(object, key);
  return value == nullptr ? std::string() : std::string(value);
}

namespace {

HwlocTopology make_topology() {
  hwloc_topology_t native = nullptr;
  if (hwloc_topology_init(&native) != 0) throw Error(ErrorCode::unsupported, "hwloc cannot be initialized");
  HwlocTopology topology(native);
  hwloc_topology_set_io_types_filter(native, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  return topology;
}

/// Calls `visit` for every object of a type, in hwloc's logical order.
template <typename Visit>
void for_each(hwloc_topology_t topology, hwloc_obj_type_t type, Visit visit) {
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    visit(object);
  }
}

void add_caches(hwloc_topology_t topology, std::vector<Cache>& caches) {
  constexpr std::pair<hwloc_obj_type_t, int> types[] = {
      {HWLOC_OBJ_L1CACHE, 1}, {HWLOC_OBJ_L2CACHE, 2}, {HWLOC_OBJ_L3CACHE, 3}};
  for (const auto& [type, level] : types) {
    for_each(topology, type, [&caches, level = level](hwloc_obj_t object) {
      caches.push_back({level, Bytes{static_cast<std::int64_t>(object->attr->cache.size)}, to_cpu_set(object->cpuset)});
    });
  }
}

void add_cores(hwloc_topology_t topology, Topology& value) {
  for_each(topology, HWLOC_OBJ_CORE, [&](hwloc_obj_t core) { value.cores.push_back(to_cpu_set(core->cpuset)); });
  if (!value.cores.empty()) return;
  // Some virtual machines do not report which PUs form a core. Then each PU counts as a core.
  for (const int pu : value.pus.numbers()) value.cores.push_back(CpuSet({pu}));
}

Topology to_value(hwloc_topology_t topology) {
  Topology value;
  value.pus = to_cpu_set(hwloc_topology_get_topology_cpuset(topology));
  for_each(topology, HWLOC_OBJ_PACKAGE, [&](hwloc_obj_t package) {
    value.packages.push_back({info(package, "CPUModel"), to_cpu_set(package->cpuset)});
  });
  for_each(topology, HWLOC_OBJ_NUMANODE, [&](hwloc_obj_t node) {
    value.numa_nodes.push_back({static_cast<int>(node->os_index),
                                Bytes{static_cast<std::int64_t>(node->attr->numanode.local_memory)},
                                to_cpu_set(node->cpuset)});
  });
  add_cores(topology, value);
  add_caches(topology, value.caches);
  value.installed_gpus = discover_gpus(topology);
  value.gpus = value.installed_gpus;
  value.bound_pus = value.pus;
  return value;
}

}  // namespace

CpuSet Topology::cores_of(const CpuSet& pus_asked) const {
  std::vector<int> numbers;
  for (std::size_t core = 0; core < cores.size(); ++core) {
    if (cores[core].intersects(pus_asked)) numbers.push_back(static_cast<int>(core));
  }
  return CpuSet(std::move(numbers));
}

Topology discover_topology() {
  const HwlocTopology topology = make_topology();
  if (hwloc_topology_load(topology.get()) != 0) {
    throw Error(ErrorCode::unsupported, "hwloc cannot read this machine's topology; `lstopo` shows why");
  }
  Topology value = to_value(topology.get());
  const char* setting = std::getenv("CUDA_VISIBLE_DEVICES");
  if (setting != nullptr) value.gpus = visible_gpus(value.gpus, setting);
  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> bound(hwloc_bitmap_alloc(), &hwloc_bitmap_free);
  if (bound != nullptr && hwloc_get_cpubind(topology.get(), bound.get(), HWLOC_CPUBIND_PROCESS) == 0) {
    const CpuSet inherited = to_cpu_set(bound.get()) & value.pus;
    if (!inherited.empty()) value.bound_pus = inherited;
  }
  return value;
}

Topology topology_from_xml(const std::string& xml) {
  const HwlocTopology topology = make_topology();
  if (hwloc_topology_set_xmlbuffer(topology.get(), xml.c_str(), static_cast<int>(xml.size()) + 1) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    throw Error(ErrorCode::corrupt, "hwloc cannot read this XML; `lstopo --of xml` of hwloc 2 writes what it reads");
  }
  return to_value(topology.get());
}

}  // namespace lockstep
