// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "base/wrapped.hpp"
#include "kernels/cuda/launch.hpp"
#include "lockstep/base/error.hpp"
#include "platform/gpu/cuda.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep {
namespace {

cudaEvent_t cuda_event(void* native) { return static_cast<cudaEvent_t>(native); }

/// Formats a version, which CUDA writes as 13000 for 13.0.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Formats the UUID as the driver and its tools do. CUDA's runtime marks an instance of a divided GPU only in its name.
std::string uuid_text(const cudaDeviceProp& properties) {
  const cudaUUID_t& uuid = properties.uuid;
  std::string text = std::string_view(properties.name).find(" MIG ") != std::string_view::npos ? "MIG" : "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += format_text("%02x", static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
  }
  return text;
}

/// Explains cudaErrorInsufficientDriver, which CUDA returns both for a driver that is too old and for a missing one.
std::string why_driver_is_insufficient() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return "no NVIDIA driver was found (libcuda.so.1); if this machine has GPUs, install one, or start the container "
           "with access to them";
  return "the NVIDIA driver serves CUDA up to " + version_text(driver) + ", and lockstep was built with CUDA " +
         version_text(CUDART_VERSION) + ": update the driver, or build lockstep with an older CUDA";
}

/// Evaluates the result of a query.
bool is_ready(cudaError_t code, std::string_view call) {
  if (code == cudaErrorNotReady) {
    cudaGetLastError();  // otherwise the next call would report it
    return false;
  }
  if (code != cudaSuccess) throw_cuda_error(code, call);
  return true;
}

void require_not_negative(Bytes bytes) {
  if (bytes.value < 0) {
    throw Error(ErrorCode::invalid_argument, "cannot allocate " + std::to_string(bytes.value) + " bytes");
  }
}

}  // namespace

void throw_cuda_error(cudaError_t code, std::string_view call, SourceLocation location) {
  cudaGetLastError();  // otherwise the next call would report this error again
  throw Error(ErrorCode::device,
              std::string(cudaGetErrorName(code)) + " (" + cudaGetErrorString(code) + ") from " + std::string(call), {},
              location);
}

BesideCaptures::BesideCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
BesideCaptures::~BesideCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }

int gpu_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

std::string why_no_gpu() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (code == cudaErrorInsufficientDriver) return why_driver_is_insufficient();
  if (code != cudaSuccess) return cudaGetErrorString(code);
  return count == 0 ? "the driver shows no GPU to this process" : "";
}

GpuProperties gpu_properties(int gpu) {
  cudaDeviceProp properties{};
  LOCKSTEP_CUDA_CHECK(cudaGetDeviceProperties(&properties, gpu));
  std::array<char, 32> bus{};
  LOCKSTEP_CUDA_CHECK(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), gpu));
  return {properties.name, uuid_text(properties), bus.data(), {static_cast<std::int64_t>(properties.totalGlobalMem)}};
}

GpuVersions gpu_versions() {
  int driver = 0;
  int runtime = 0;
  LOCKSTEP_CUDA_CHECK(cudaDriverGetVersion(&driver));
  LOCKSTEP_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  return {version_text(driver), version_text(runtime)};
}

void select_gpu(int gpu) { LOCKSTEP_CUDA_CHECK(cudaSetDevice(gpu)); }

Stream::Stream(StreamPriority priority) {
  int least = 0;
  int greatest = 0;
  LOCKSTEP_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  LOCKSTEP_CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                                   priority == StreamPriority::highest ? greatest : least));
  native_ = stream;
}

Stream::~Stream() {
  if (native_ != nullptr) cudaStreamDestroy(cuda_stream(queue()));
}

void Stream::synchronize() {
  const BesideCaptures beside;
  LOCKSTEP_CUDA_CHECK(cudaStreamSynchronize(cuda_stream(queue())));
}

Event::Event() {
  cudaEvent_t event = nullptr;
  LOCKSTEP_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  native_ = event;
}

Event::~Event() {
  if (native_ != nullptr) cudaEventDestroy(cuda_event(native_));
}

void Event::record(Queue stream) { LOCKSTEP_CUDA_CHECK(cudaEventRecord(cuda_event(native_), cuda_stream(stream))); }

bool Event::reached() const {
  const BesideCaptures beside;
  return is_ready(cudaEventQuery(cuda_event(native_)), "cudaEventQuery");
}

void Event::hold_back(Queue stream) const {
  LOCKSTEP_CUDA_CHECK(cudaStreamWaitEvent(cuda_stream(stream), cuda_event(native_), 0));
}

bool is_done(Queue stream) {
  const BesideCaptures beside;
  return is_ready(cudaStreamQuery(cuda_stream(stream)), "cudaStreamQuery");
}

bool is_captured(Queue stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  LOCKSTEP_CUDA_CHECK(cudaStreamIsCapturing(cuda_stream(stream), &status));
  if (status == cudaStreamCaptureStatusInvalidated)
    throw Error(ErrorCode::invalid_argument, "the capture of the stream has failed: end it");
  return status == cudaStreamCaptureStatusActive;
}

void CapturedGraph::begin(Queue stream) {
  LOCKSTEP_CUDA_CHECK(cudaStreamBeginCapture(cuda_stream(stream), cudaStreamCaptureModeThreadLocal));
}

CapturedGraph::CapturedGraph(Queue stream) {
  cudaGraph_t graph = nullptr;
  LOCKSTEP_CUDA_CHECK(cudaStreamEndCapture(cuda_stream(stream), &graph));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  if (code != cudaSuccess) throw_cuda_error(code, "cudaGraphInstantiate");
  native_ = executable;
}

CapturedGraph::~CapturedGraph() {
  if (native_ != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(native_));
}

void CapturedGraph::launch(Queue stream) const {
  LOCKSTEP_CUDA_CHECK(cudaGraphLaunch(static_cast<cudaGraphExec_t>(native_), cuda_stream(stream)));
}

GpuMemory gpu_memory() {
  const BesideCaptures beside;
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  LOCKSTEP_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total));
  return {{static_cast<std::int64_t>(free_bytes)}, {static_cast<std::int64_t>(total)}};
}

void throw_out_of_memory(Bytes bytes, std::string_view call) {
  cudaGetLastError();  // otherwise the next call would report the failed allocation
  const GpuMemory memory = gpu_memory();
  throw Error(ErrorCode::out_of_memory,
              "the GPU has no room for " + mib_text(bytes) + ": of its " + mib_text(memory.total) + ", " +
                  mib_text(memory.free) + " are free (" + cudaGetErrorName(cudaErrorMemoryAllocation) + " from " +
                  std::string(call) + ")",
              {.bytes = bytes.value});
}

Allocation allocate_device(Bytes bytes) {
  require_not_negative(bytes);
  if (bytes.value == 0) return {};
  const BesideCaptures beside;
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, static_cast<std::size_t>(bytes.value));
  if (code == cudaErrorMemoryAllocation) throw_out_of_memory(bytes, "cudaMalloc");
  if (code != cudaSuccess) throw_cuda_error(code, "cudaMalloc");
  Allocation memory(data, bytes, MemoryKind::device, [](void* p) {
    const BesideCaptures while_freed;
    cudaFree(p);
  });
  clear_now(memory.as(DType::uint8));
  return memory;
}

Allocation allocate_pinned(Bytes bytes) {
  require_not_negative(bytes);
  if (bytes.value == 0) return {};
  const BesideCaptures beside;
  void* data = nullptr;
  LOCKSTEP_CUDA_CHECK(cudaMallocHost(&data, static_cast<std::size_t>(bytes.value)));
  Allocation memory(data, bytes, MemoryKind::pinned, [](void* p) {
    const BesideCaptures while_freed;
    cudaFreeHost(p);
  });
  auto* begin = static_cast<unsigned char*>(data);
  std::fill(begin, begin + bytes.value, static_cast<unsigned char>(0));
  return memory;
}

void copy_bytes(void* to, const void* from, Bytes bytes, Queue stream) {
  LOCKSTEP_CUDA_CHECK(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes.value), cudaMemcpyDefault, cuda_stream(stream)));
}

void clear_now(const Buffer& buffer) {
  Stream stream;
  clear_bytes(buffer.data, buffer.bytes(), stream.queue());
  stream.synchronize();
}

void clear_bytes(void* memory, Bytes bytes, Queue stream) {
  LOCKSTEP_CUDA_CHECK(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes.value), cuda_stream(stream)));
}

void mark_not_finite(const ConstBuffer& values, std::uint32_t* mark, Queue stream) {
  if (const std::string why = kernels::cuda::why_no_kernels(); !why.empty())
    throw Error(ErrorCode::unsupported, "values in memory of a GPU are not checked: " + why);
  LOCKSTEP_CUDA_CHECK(kernels::cuda::launch_finite_check(values, mark, cuda_stream(stream)));
}

}  // namespace lockstep
