// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "emulated_gpu/cuda/runtime.hpp"

namespace emulated_gpu {
namespace {

const Device* find_description(int gpu) {
  const auto& all = Runtime::instance().machine.devices;
  return gpu >= 0 && static_cast<std::size_t>(gpu) < all.size() ? &all[static_cast<std::size_t>(gpu)] : nullptr;
}

/// Parses "GPU-" or "MIG-" and 32 hexadecimal digits in groups.
cudaUUID_t uuid_of(const Device& device) {
  cudaUUID_t uuid{};
  std::string digits;
  for (const char c : std::string_view(device.uuid).substr(4))
    if (c != '-') digits += c;
  for (std::size_t i = 0; i < sizeof uuid.bytes && 2 * i + 1 < digits.size(); ++i)
    uuid.bytes[i] = static_cast<char>(std::strtoul(digits.substr(2 * i, 2).c_str(), nullptr, 16));
  return uuid;
}

struct Pci {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
};

Pci pci_of(const Device& device) {
  Pci pci;
  std::sscanf(device.pci.c_str(), "%x:%x:%x", &pci.domain, &pci.bus, &pci.device);
  return pci;
}

constexpr int threads_of_block = 1024;
constexpr std::size_t shared_of_block = std::size_t{48} << 10;
constexpr std::size_t most_shared_of_block = std::size_t{227} << 10;

cudaDeviceProp properties_of(const Device& device) {
  cudaDeviceProp p{};
  std::snprintf(p.name, sizeof p.name, "%s", device.name.c_str());
  p.uuid = uuid_of(device);
  p.totalGlobalMem = device.memory;
  p.sharedMemPerBlock = shared_of_block;
  p.sharedMemPerBlockOptin = most_shared_of_block;
  p.regsPerBlock = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = threads_of_block;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = threads_of_block;
  p.maxThreadsDim[2] = 64;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.major = device.major;
  p.minor = device.minor;
  p.multiProcessorCount = device.sms;
  p.asyncEngineCount = 2;
  p.unifiedAddressing = p.managedMemory = p.concurrentKernels = p.canMapHostMemory = 1;
  p.memoryPoolsSupported = p.streamPrioritiesSupported = 1;
  p.concurrentManagedAccess = Runtime::instance().machine.concurrent_managed_access ? 1 : 0;
  const Pci pci = pci_of(device);
  p.pciDomainID = static_cast<int>(pci.domain);
  p.pciBusID = static_cast<int>(pci.bus);
  p.pciDeviceID = static_cast<int>(pci.device);
  return p;
}

/// Returns an attribute that is also a property; −1 for others.
int attribute_of(const cudaDeviceProp& p, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: return p.maxThreadsPerBlock;
    case cudaDevAttrMaxSharedMemoryPerBlock: return static_cast<int>(p.sharedMemPerBlock);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return static_cast<int>(p.sharedMemPerBlockOptin);
    case cudaDevAttrWarpSize: return p.warpSize;
    case cudaDevAttrMultiProcessorCount: return p.multiProcessorCount;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return p.maxThreadsPerMultiProcessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return p.maxBlocksPerMultiProcessor;
    case cudaDevAttrComputeCapabilityMajor: return p.major;
    case cudaDevAttrComputeCapabilityMinor: return p.minor;
    case cudaDevAttrUnifiedAddressing: return p.unifiedAddressing;
    case cudaDevAttrManagedMemory: return p.managedMemory;
    case cudaDevAttrConcurrentManagedAccess: return p.concurrentManagedAccess;
    case cudaDevAttrMemoryPoolsSupported: return p.memoryPoolsSupported;
    case cudaDevAttrPciBusId: return p.pciBusID;
    case cudaDevAttrPciDeviceId: return p.pciDeviceID;
    case cudaDevAttrPciDomainId: return p.pciDomainID;
    default: return -1;
  }
}

}  // namespace
}  // namespace emulated_gpu

using namespace emulated_gpu;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  const std::scoped_lock lock(device_lock());
  const Runtime& runtime = Runtime::instance();
  *count = static_cast<int>(runtime.devices.size());
  // @source CUDA Compatibility, minor version compatibility: a driver with the runtime's major version suffices.
  if (runtime.machine.driver / 1000 < CUDART_VERSION / 1000) {
    *count = 0;
    return Call::result(cudaErrorInsufficientDriver);
  }
  return *count == 0 ? Call::result(cudaErrorNoDevice) : cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  EMULATED_GPU_CALL("cudaGetDevice");
  *device = current_gpu();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const std::scoped_lock lock(device_lock());
  if (Runtime::instance().devices.empty()) return Call::result(cudaErrorNoDevice);
  if (find_description(device) == nullptr) return Call::result(cudaErrorInvalidDevice);
  current_gpu() = device;
  EMULATED_GPU_CALL("cudaSetDevice");
  return cudaSuccess;
}

cudaError_t cudaInitDevice(int device, unsigned int /*device_flags*/, unsigned int /*flags*/) {
  EMULATED_GPU_CALL("cudaInitDevice");
  return find_description(device) == nullptr ? Call::result(cudaErrorInvalidDevice) : cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int gpu) {
  EMULATED_GPU_CALL("cudaGetDeviceProperties");
  const Device* device = find_description(gpu);
  if (device == nullptr) return Call::result(cudaErrorInvalidDevice);
  *properties = properties_of(*device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int gpu) {
  EMULATED_GPU_CALL("cudaDeviceGetAttribute");
  const Device* device = find_description(gpu);
  if (device == nullptr) return Call::result(cudaErrorInvalidDevice);
  *value = attribute_of(properties_of(*device), attribute);
  return *value < 0 ? Call::result(cudaErrorNotSupported) : cudaSuccess;
}

/// Kernels have no registers here: only the numbers of threads and blocks limit the result.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads,
                                                          size_t /*shared_bytes*/) {
  EMULATED_GPU_CALL("cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const Device* device = find_description(current_gpu());
  if (blocks == nullptr || device == nullptr || threads < 1) return Call::result(cudaErrorInvalidValue);
  if (kernel == nullptr) return Call::result(cudaErrorInvalidDeviceFunction);
  const cudaDeviceProp p = properties_of(*device);
  const int warps = (threads + p.warpSize - 1) / p.warpSize;
  *blocks = std::min(p.maxBlocksPerMultiProcessor, p.maxThreadsPerMultiProcessor / (warps * p.warpSize));
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int gpu) {
  EMULATED_GPU_CALL("cudaDeviceGetPCIBusId");
  const Device* device = find_description(gpu);
  if (device == nullptr) return Call::result(cudaErrorInvalidDevice);
  std::string id = device->pci;
  std::transform(id.begin(), id.end(), id.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (text == nullptr || static_cast<std::size_t>(length) <= id.size()) return Call::result(cudaErrorInvalidValue);
  std::memcpy(text, id.c_str(), id.size() + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int* gpu, const char* text) {
  EMULATED_GPU_CALL("cudaDeviceGetByPCIBusId");
  Device named;
  named.pci = text;
  const Pci wanted = pci_of(named);
  const auto& all = Runtime::instance().machine.devices;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Pci pci = pci_of(all[i]);
    if (pci.domain != wanted.domain || pci.bus != wanted.bus || pci.device != wanted.device) continue;
    *gpu = static_cast<int>(i);
    return cudaSuccess;
  }
  return Call::result(cudaErrorInvalidDevice);
}

cudaError_t cudaDriverGetVersion(int* version) {
  const std::scoped_lock lock(device_lock());
  *version = Runtime::instance().machine.driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  EMULATED_GPU_CALL("cudaDeviceSynchronize", Call::Capturing::refused);
  for (CUstream_st* stream : Runtime::instance().streams)
    if (stream->gpu == current_gpu() && stream->capture)
      return Call::result(break_capture(*stream, cudaErrorStreamCaptureUnsupported));
  return Call::result(call.wait_for_device(current_gpu()));
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int gpu, int peer) {
  EMULATED_GPU_CALL("cudaDeviceCanAccessPeer");
  if (find_description(gpu) == nullptr || find_description(peer) == nullptr)
    return Call::result(cudaErrorInvalidDevice);
  *can = gpu == peer ? 0 : 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  EMULATED_GPU_CALL("cudaDeviceEnablePeerAccess");
  if (find_description(peer) == nullptr || peer == current_gpu()) return Call::result(cudaErrorInvalidDevice);
  if (flags != 0) return Call::result(cudaErrorInvalidValue);
  const bool is_new = state_of(current_gpu()).peers.insert(peer).second;
  return is_new ? cudaSuccess : Call::result(cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  EMULATED_GPU_CALL("cudaDeviceDisablePeerAccess");
  if (find_description(peer) == nullptr) return Call::result(cudaErrorInvalidDevice);
  return state_of(current_gpu()).peers.erase(peer) > 0 ? cudaSuccess : Call::result(cudaErrorPeerAccessNotEnabled);
}

}  // extern "C"
