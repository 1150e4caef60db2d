// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include "platform/machine/hwloc.hpp"
#include "platform/machine/topology.hpp"

namespace lockstep {
namespace {

using PciDevice = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

constexpr unsigned nvidia = 0x10de;
constexpr unsigned amd = 0x1002;

/// PCI base class of display controllers: VGA (0x0300), XGA, 3D (0x0302), others.
bool is_display_controller(unsigned short class_id) { return class_id >> 8 == 0x03; }

std::string bus_id(const PciDevice& pci) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%01x", static_cast<unsigned>(pci.domain),
                static_cast<unsigned>(pci.bus), static_cast<unsigned>(pci.dev), static_cast<unsigned>(pci.func));
  return text.data();
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

}  // namespace

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

namespace {

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

}  // namespace lockstep
