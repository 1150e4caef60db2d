// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/device/machine.hpp"

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>

namespace emulated_gpu {
namespace {

using Json = nlohmann::json;

/// A GPU of the file with its MIG instances.
struct Physical {
  Device device;
  std::vector<std::string> instances;
};

Physical physical_from(const Json& json) {
  Physical gpu;
  Device& device = gpu.device;
  device.name = json.at("name").get<std::string>();
  device.uuid = json.at("uuid").get<std::string>();
  device.pci = json.at("pci").get<std::string>();
  device.memory = json.at("memory_mib").get<std::size_t>() << 20;
  device.sms = json.value("sms", device.sms);
  const std::string compute = json.value("compute", "9.0");
  device.major = std::stoi(compute);
  device.minor = std::stoi(compute.substr(compute.find('.') + 1));
  for (const Json& instance : json.value("mig", Json::array())) gpu.instances.push_back(instance.get<std::string>());
  return gpu;
}

Device instance_of(const Physical& gpu, const std::string& uuid) {
  Device device = gpu.device;
  device.uuid = uuid;
  device.name += " MIG 1g.20gb";
  device.memory /= gpu.instances.size();
  device.sms /= static_cast<int>(gpu.instances.size());
  return device;
}

/// Returns the device for a program that may use the whole GPU: the GPU itself, or its first instance.
Device whole(const Physical& gpu) {
  return gpu.instances.empty() ? gpu.device : instance_of(gpu, gpu.instances.front());
}

std::optional<Device> find_device(const std::vector<Physical>& gpus, std::string_view entry) {
  std::vector<Device> found;
  for (const Physical& gpu : gpus) {
    if (entry.starts_with("GPU-") && gpu.device.uuid.starts_with(entry)) found.push_back(whole(gpu));
    for (const std::string& instance : gpu.instances)
      if (instance == entry) found.push_back(instance_of(gpu, instance));
  }
  if (entry.starts_with("GPU-") || entry.starts_with("MIG-"))
    return found.size() == 1 ? std::optional(found.front()) : std::nullopt;  // a prefix must match exactly one GPU
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  if (error != std::errc() || end != entry.data() + entry.size() || index >= gpus.size()) return std::nullopt;
  return whole(gpus[index]);
}

std::vector<Device> visible_devices(const std::vector<Physical>& gpus, const char* visible) {
  std::vector<Device> all;
  if (visible == nullptr) {
    for (const Physical& gpu : gpus) all.push_back(whole(gpu));
  } else {
    std::set<std::string> seen;
    for (std::string_view rest = visible; !rest.empty();) {
      const auto comma = rest.find(',');
      const auto device = find_device(gpus, rest.substr(0, comma));
      if (!device) break;                                // entries after an invalid one are ignored
      if (!seen.insert(device->uuid).second) return {};  // duplicates make all devices invisible
      all.push_back(*device);
      rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].uuid.starts_with("MIG-")) return {all[i]};  // a process has only one instance and no other device
  return all;
}

}  // namespace

Machine parse_machine(const std::string& text, const char* visible) {
  const Json json = Json::parse(text);
  Machine machine;
  machine.driver = json.value("driver", machine.driver);
  machine.concurrent_managed_access = json.value("concurrent_managed_access", true);
  std::vector<Physical> gpus;
  for (const Json& gpu : json.at("gpus")) gpus.push_back(physical_from(gpu));
  machine.devices = visible_devices(gpus, visible);
  return machine;
}

Machine read_machine() {
  const char* path = std::getenv("EMULATED_GPU_MACHINE");
  if (path == nullptr) return {};
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) throw std::runtime_error("EMULATED_GPU_MACHINE=" + std::string(path) + " cannot be read");
  try {
    return parse_machine(text, std::getenv("CUDA_VISIBLE_DEVICES"));
  } catch (const std::exception& error) {
    throw std::runtime_error("EMULATED_GPU_MACHINE=" + std::string(path) + ": " + error.what());
  }
}

}  // namespace emulated_gpu
