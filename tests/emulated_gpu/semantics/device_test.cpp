// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <set>
#include <string>

#include "emulated_gpu/semantics/support.hpp"

namespace emulated_gpu::semantics {
namespace {

class CudaDevice : public Gpu {};
class CudaDevices : public TwoGpus {};

cudaDeviceProp properties_of(int gpu) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, gpu));
  return properties;
}

int attribute_of(cudaDeviceAttr attribute, int gpu) {
  int value = -1;
  check(cudaDeviceGetAttribute(&value, attribute, gpu));
  return value;
}

int selected() {
  int gpu = -1;
  check(cudaGetDevice(&gpu));
  return gpu;
}

std::string pci_id_of(int gpu) {
  std::array<char, 32> text{};
  check(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), gpu));
  return text.data();
}

// CUDA C++ Programming Guide 13.0, Compute Capabilities, Technical Specifications: these are the same for all since 5.0
TEST_F(CudaDevice, HasWhatEveryComputeCapabilityHas) {
  for (int gpu = 0; gpu < gpu_count(); ++gpu) {
    const cudaDeviceProp properties = properties_of(gpu);
    EXPECT_EQ(properties.warpSize, 32);
    EXPECT_EQ(properties.maxThreadsPerBlock, 1024);
    EXPECT_EQ(properties.maxThreadsDim[0], 1024);
    EXPECT_EQ(properties.maxThreadsDim[1], 1024);
    EXPECT_EQ(properties.maxThreadsDim[2], 64);
    EXPECT_EQ(properties.maxGridSize[0], 2147483647);
    EXPECT_EQ(properties.maxGridSize[1], 65535);
    EXPECT_EQ(properties.maxGridSize[2], 65535);
    EXPECT_GE(properties.sharedMemPerBlockOptin, properties.sharedMemPerBlock);
    EXPECT_GT(properties.multiProcessorCount, 0);
    EXPECT_GT(std::strlen(properties.name), 0U);
  }
}

// CUDA Runtime API, Device Management: cudaDeviceGetAttribute returns the same as cudaGetDeviceProperties
TEST_F(CudaDevice, HasAttributesThatAreItsProperties) {
  for (int gpu = 0; gpu < gpu_count(); ++gpu) {
    const cudaDeviceProp properties = properties_of(gpu);
    EXPECT_EQ(attribute_of(cudaDevAttrWarpSize, gpu), properties.warpSize);
    EXPECT_EQ(attribute_of(cudaDevAttrMaxThreadsPerBlock, gpu), properties.maxThreadsPerBlock);
    EXPECT_EQ(attribute_of(cudaDevAttrMultiProcessorCount, gpu), properties.multiProcessorCount);
    EXPECT_EQ(attribute_of(cudaDevAttrMaxThreadsPerMultiProcessor, gpu), properties.maxThreadsPerMultiProcessor);
    EXPECT_EQ(attribute_of(cudaDevAttrMaxBlocksPerMultiprocessor, gpu), properties.maxBlocksPerMultiProcessor);
    EXPECT_EQ(attribute_of(cudaDevAttrComputeCapabilityMajor, gpu), properties.major);
    EXPECT_EQ(attribute_of(cudaDevAttrComputeCapabilityMinor, gpu), properties.minor);
    EXPECT_EQ(attribute_of(cudaDevAttrPciDomainId, gpu), properties.pciDomainID);
    EXPECT_EQ(attribute_of(cudaDevAttrPciBusId, gpu), properties.pciBusID);
    EXPECT_EQ(attribute_of(cudaDevAttrPciDeviceId, gpu), properties.pciDeviceID);
    EXPECT_EQ(attribute_of(cudaDevAttrManagedMemory, gpu), properties.managedMemory);
    EXPECT_EQ(attribute_of(cudaDevAttrConcurrentManagedAccess, gpu), properties.concurrentManagedAccess);
  }
}

// CUDA C++ Programming Guide 13.0, Unified Virtual Address Space: every 64-bit process has one
TEST_F(CudaDevice, SharesOneAddressSpaceWithTheHost) {
  for (int gpu = 0; gpu < gpu_count(); ++gpu) EXPECT_EQ(properties_of(gpu).unifiedAddressing, 1);
}

// CUDA Runtime API, Device Management: cudaDeviceGetPCIBusId, cudaDeviceGetByPCIBusId
TEST_F(CudaDevice, IsFoundByItsPciId) {
  for (int gpu = 0; gpu < gpu_count(); ++gpu) {
    const std::string id = pci_id_of(gpu);
    int found = -1;
    ASSERT_EQ(cudaDeviceGetByPCIBusId(&found, id.c_str()), cudaSuccess) << id;
    // Instances of one GPU have the same id.
    EXPECT_EQ(pci_id_of(found), id);
    EXPECT_EQ(std::stoi(id.substr(id.find(':') + 1), nullptr, 16), properties_of(gpu).pciBusID) << id;
  }
}

// CUDA Runtime API, Device Management: cudaDeviceGetByPCIBusId
TEST_F(CudaDevice, IsNotFoundByAnIdThatNoneHas) {
  int found = -1;
  EXPECT_NE(cudaDeviceGetByPCIBusId(&found, "ffff:ff:1f.0"), cudaSuccess);
}

// CUDA Runtime API, Data types: cudaDeviceProp::uuid is unique
TEST_F(CudaDevice, HasAUuidOfItsOwn) {
  std::set<std::string> all;
  for (int gpu = 0; gpu < gpu_count(); ++gpu) {
    const cudaUUID_t uuid = properties_of(gpu).uuid;
    EXPECT_TRUE(all.insert(std::string(uuid.bytes, sizeof uuid.bytes)).second) << gpu;
  }
}

// CUDA Runtime API, Device Management: cudaSetDevice
TEST_F(CudaDevice, IsNotSelectedByAnOrdinalThatNoneHas) {
  EXPECT_EQ(cudaSetDevice(gpu_count()), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  EXPECT_EQ(selected(), 0);
  cudaDeviceProp properties{};
  EXPECT_EQ(cudaGetDeviceProperties(&properties, gpu_count()), cudaErrorInvalidDevice);
  int value = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, gpu_count()), cudaErrorInvalidDevice);
}

// CUDA Runtime API, Version Management; CUDA Compatibility: the driver is of the runtime's major version or newer
TEST_F(CudaDevice, HasADriverThatIsNewEnough) {
  int driver = 0;
  int runtime = 0;
  ASSERT_EQ(cudaDriverGetVersion(&driver), cudaSuccess);
  ASSERT_EQ(cudaRuntimeGetVersion(&runtime), cudaSuccess);
  EXPECT_GE(runtime / 1000, CUDART_VERSION / 1000);
  EXPECT_GE(driver / 1000, runtime / 1000);
}

// CUDA C++ Programming Guide 13.0, Multi-Device System, Device Selection: device 0 unless a thread selects another
TEST_F(CudaDevices, IsSelectedByEachThreadForItself) {
  check(cudaSetDevice(1));
  int of_another = -1;
  on_another_thread([&] { of_another = selected(); });
  EXPECT_EQ(of_another, 0);
  EXPECT_EQ(selected(), 1);
  on_another_thread([&] {
    check(cudaSetDevice(0));
    of_another = selected();
  });
  EXPECT_EQ(selected(), 1);
}

// CUDA C++ Programming Guide 13.0, Multi-Device System, Device Selection: memory belongs to the selected device
TEST_F(CudaDevices, HasTheMemoryThatIsAllocatedWhileItIsSelected) {
  check(cudaSetDevice(1));
  const Array<int> memory(4);
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, memory.data()), cudaSuccess);
  EXPECT_EQ(attributes.device, 1);
}

// CUDA C++ Programming Guide 13.0, Multi-Device System, Peer-to-Peer Memory Copy: addresses identify the devices
TEST_F(CudaDevices, CopyToEachOther) {
  const Array<int> here(std::vector<int>{1, 2, 3, 4});
  check(cudaSetDevice(1));
  const Array<int> there(4);
  ASSERT_EQ(cudaMemcpy(there.data(), here.data(), here.bytes(), cudaMemcpyDefault), cudaSuccess);
  check(cudaDeviceSynchronize());
  check(cudaSetDevice(0));
  check(cudaDeviceSynchronize());
  EXPECT_EQ(there.values(), (std::vector<int>{1, 2, 3, 4}));
}

// CUDA Runtime API, Peer Device Memory Access: cudaDeviceEnablePeerAccess, cudaDeviceDisablePeerAccess
TEST_F(CudaDevices, LetEachOtherInOnce) {
  int can = 0;
  ASSERT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  if (can == 0) LOCKSTEP_SKIP(device) << "GPUs 0 and 1 cannot access each other";
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaSuccess);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
}

// CUDA C++ Programming Guide 13.0, Multi-Device System, Stream and Event Behavior
TEST_F(CudaDevices, TakeCopiesAndFillsForStreamsOfOthers) {
  const Array<int> memory(4);
  const Stream stream;
  check(cudaSetDevice(1));
  EXPECT_EQ(cudaMemsetAsync(memory.data(), 1, memory.bytes(), stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  check(cudaSetDevice(0));
  EXPECT_EQ(memory.values(), std::vector<int>(4, 0x01010101));
}

// CUDA C++ Programming Guide 13.0, Multi-Device System, Stream and Event Behavior: each device has its own default
// stream
TEST_F(CudaDevices, HaveDefaultStreamsOfTheirOwn) {
  Gate gate(cudaStreamLegacy);
  EXPECT_TRUE(stays_busy(cudaStreamLegacy));
  check(cudaSetDevice(1));
  EXPECT_TRUE(becomes_ready(cudaStreamLegacy));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  gate.open();
}

}  // namespace
}  // namespace emulated_gpu::semantics
