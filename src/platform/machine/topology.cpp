// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/topology.hpp"

#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <type_traits>

#include "base/wrapped.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyTopology>;

/// Converts a bitmap; returns the empty set if it is absent or infinite.
CpuSet to_cpu_set(hwloc_const_bitmap_t bitmap) {
  std::vector<int> numbers;
  if (bitmap == nullptr || hwloc_bitmap_weight(bitmap) < 0) return {};  // infinite: hwloc does not know
  for (int number = hwloc_bitmap_first(bitmap); number >= 0; number = hwloc_bitmap_next(bitmap, number)) {
    numbers.push_back(number);
  }
  return CpuSet(std::move(numbers));
}

/// Returns an info attribute of an object; empty if it has none of that name.
std::string info(hwloc_obj_t object, const char* key) {
  const char* value = hwloc_obj_get_info_by_name(object, key);
  return value == nullptr ? std::string() : std::string(value);
}

using PciDevice = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

constexpr unsigned nvidia = 0x10de;
constexpr unsigned amd = 0x1002;

/// PCI base class of display controllers: VGA (0x0300), XGA, 3D (0x0302), others.
bool is_display_controller(unsigned short class_id) { return class_id >> 8 == 0x03; }

std::string bus_id(const PciDevice& pci) {
  return format_text("%04x:%02x:%02x.%01x", static_cast<unsigned>(pci.domain), static_cast<unsigned>(pci.bus),
                     static_cast<unsigned>(pci.dev), static_cast<unsigned>(pci.func));
}

std::string vendor_name(unsigned vendor_id) {
  if (vendor_id == nvidia) return "NVIDIA Corporation";
  if (vendor_id == amd) return "Advanced Micro Devices, Inc.";
  return {};
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [text](auto prefix) { return text.starts_with(prefix); });
}

/// Whether an operating-system device is a driver's view of a GPU. Every display has card0 and renderD128, so these do
/// not count.
bool is_gpu_device(hwloc_obj_t device) {
  return device->name != nullptr && starts_with_any(device->name, {"cuda", "nvml", "rsmi", "ze"});
}

void take(std::string& known, const std::string& value) {
  if (known.empty()) known = value;
}

/// Adds the data of one driver's view. CUDA's name has precedence over NVML's, because programs use CUDA's number.
void merge(Gpu& gpu, hwloc_obj_t device) {
  if (gpu.name.empty() || std::string_view(device->name).starts_with("cuda")) gpu.name = device->name;
  take(gpu.vendor, info(device, "GPUVendor"));
  take(gpu.model, info(device, "GPUModel"));
  for (const char* key : {"NVIDIAUUID", "AMDUUID", "LevelZeroUUID"}) take(gpu.uuid, info(device, key));
}

std::vector<hwloc_obj_t> gpu_devices_below(hwloc_obj_t object) {
  std::vector<hwloc_obj_t> devices;
  for (hwloc_obj_t child = object->io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type == HWLOC_OBJ_OS_DEVICE && is_gpu_device(child)) devices.push_back(child);
  }
  return devices;
}

CpuSet near_pus(hwloc_topology_t topology, hwloc_obj_t device) {
  const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, device);
  return place == nullptr ? CpuSet() : to_cpu_set(place->cpuset);
}

/// Returns all GPUs that hwloc knows, one entry per PCI device, ordered by bus id. A PCI device counts as a GPU if a
/// driver's back end says so (CUDA, NVML, RSMI, Level Zero), or if it is a display or 3D controller of a vendor of
/// compute GPUs: hwloc as built by Debian has no CUDA back end, but always reads PCI. Consoles of virtual machines and
/// of board management are not GPUs by these rules.
std::vector<Gpu> discover_gpus(hwloc_topology_t topology) {
  std::vector<Gpu> gpus;
  for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_pcidev(topology, device)) != nullptr;) {
    const PciDevice& pci = device->attr->pcidev;
    const auto views = gpu_devices_below(device);
    const bool compute_display =
        is_display_controller(pci.class_id) && (pci.vendor_id == nvidia || pci.vendor_id == amd);
    if (views.empty() && !compute_display) continue;
    Gpu gpu{.pci_bus_id = bus_id(pci), .near_pus = near_pus(topology, device)};
    for (const hwloc_obj_t view : views) merge(gpu, view);
    take(gpu.vendor, info(device, "PCIVendor"));
    take(gpu.vendor, vendor_name(pci.vendor_id));
    take(gpu.model, info(device, "PCIDevice"));
    gpus.push_back(std::move(gpu));
  }
  std::sort(gpus.begin(), gpus.end(), [](const Gpu& a, const Gpu& b) { return a.pci_bus_id < b.pci_bus_id; });
  return gpus;
}

std::vector<Gpu>::const_iterator find_gpu(const std::vector<Gpu>& all, std::string_view entry) {
  if (entry.starts_with("GPU-")) {
    const auto named = [entry](const Gpu& gpu) { return gpu.uuid.starts_with(entry); };
    const auto first = std::find_if(all.begin(), all.end(), named);
    const bool ambiguous = first != all.end() && std::any_of(first + 1, all.end(), named);
    return ambiguous ? all.end() : first;
  }
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  const bool valid = error == std::errc() && end == entry.data() + entry.size() && index < all.size();
  return valid ? all.begin() + static_cast<std::ptrdiff_t>(index) : all.end();
}

HwlocTopology empty_topology() {
  hwloc_topology_t native = nullptr;
  if (hwloc_topology_init(&native) != 0) throw Error(ErrorCode::unsupported, "hwloc cannot be initialized");
  return HwlocTopology(native);
}

HwlocTopology make_topology() {
  HwlocTopology topology = empty_topology();
  hwloc_topology_set_io_types_filter(topology.get(), HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  return topology;
}

void load(hwloc_topology_t topology) {
  if (hwloc_topology_load(topology) == 0) return;
  throw Error(ErrorCode::unsupported, "hwloc cannot read this machine's topology; `lstopo` shows why");
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

std::vector<Gpu> visible_gpus(const std::vector<Gpu>& all, const std::optional<std::string>& setting) {
  if (!setting) return all;
  std::vector<Gpu> visible;
  std::string_view rest = *setting;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const auto gpu = find_gpu(all, rest.substr(0, comma));
    if (gpu == all.end()) break;
    visible.push_back(*gpu);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return visible;
}

CpuSet Topology::cores_of(const CpuSet& pus_asked) const {
  std::vector<int> numbers;
  for (std::size_t core = 0; core < cores.size(); ++core) {
    if (cores[core].intersects(pus_asked)) numbers.push_back(static_cast<int>(core));
  }
  return CpuSet(std::move(numbers));
}

CpuSet bound_pus() {
  std::vector<int> numbers;
  // The kernel refuses a set that is smaller than its own; no kernel has more than 2¹⁶ processors.
  for (int most = CPU_SETSIZE; numbers.empty() && most <= 1 << 16; most *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(static_cast<std::size_t>(most)),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(most));
    if (set == nullptr || sched_getaffinity(getpid(), bytes, set.get()) != 0) continue;
    for (int pu = 0; pu < most; ++pu)
      if (CPU_ISSET_S(static_cast<std::size_t>(pu), bytes, set.get())) numbers.push_back(pu);
  }
  return CpuSet(std::move(numbers));
}

Topology discover_topology() {
  const HwlocTopology topology = make_topology();
  load(topology.get());
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

std::vector<Cache> discover_caches() {
  const HwlocTopology topology = empty_topology();
  hwloc_topology_set_all_types_filter(topology.get(), HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_cache_types_filter(topology.get(), HWLOC_TYPE_FILTER_KEEP_ALL);
  load(topology.get());
  std::vector<Cache> caches;
  add_caches(topology.get(), caches);
  return caches;
}

CpuSet last_level_cache(std::span<const Cache> caches, const CpuSet& pus) {
  const auto shared =
      std::find_if(caches.rbegin(), caches.rend(), [&](const Cache& cache) { return cache.pus.includes(pus); });
  return shared == caches.rend() ? CpuSet() : shared->pus;
}

Topology topology_from_xml(const std::string& xml) {
  const HwlocTopology topology = make_topology();
  if (hwloc_topology_set_xmlbuffer(topology.get(), xml.c_str(), static_cast<int>(xml.size()) + 1) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    throw Error(ErrorCode::corrupt, "hwloc cannot read this XML; `lstopo --of xml` of hwloc 2 writes what it reads");
  }
  return to_value(topology.get());
}

std::string hwloc_library_version() {
  const unsigned version = hwloc_get_api_version();
  return std::to_string(version >> 16U) + '.' + std::to_string(version >> 8U & 0xffU) + '.' +
         std::to_string(version & 0xffU);
}

std::string processor_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t begin = line.find_first_not_of(" :", std::min(line.find(':'), line.size()));
    return begin == std::string::npos ? "unknown" : line.substr(begin);
  }
  return "unknown";
}

}  // namespace lockstep
