// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "emulated_gpu/cuda/runtime.hpp"

namespace emulated_gpu {
namespace {

constexpr int least_priority = 0;
constexpr int greatest_priority = -5;

/// Returns a node after all work of the stream; no other work depends on it.
NodePtr end_of(const CUstream_st& stream) {
  return stream.is_legacy ? Engine::instance().add(nullptr, order_behind(stream), stream.gpu) : stream.tail;
}

class HostFunction : public Task {
 public:
  HostFunction(cudaHostFn_t function, void* data) {
    run_ = [function, data] {
      const HostFunctionScope scope;
      function(data);
    };
  }
  Step step(Random& /*random*/) override { return Step::done; }
  [[nodiscard]] std::string what() const override { return "cudaLaunchHostFunc"; }
  [[nodiscard]] const std::function<void()>* host_function() const override { return &run_; }

 private:
  std::function<void()> run_;
};

cudaError_t create_stream(const char* name, cudaStream_t* stream, unsigned flags, int priority) {
  EMULATED_GPU_CALL(name);
  if (stream == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0)
    return Call::result(cudaErrorInvalidValue);
  auto* made = new CUstream_st;
  made->gpu = current_gpu();
  made->flags = flags;
  made->priority = std::clamp(priority, greatest_priority, least_priority);
  Runtime::instance().streams.insert(made);
  *stream = made;
  return cudaSuccess;
}

}  // namespace
}  // namespace emulated_gpu

using namespace emulated_gpu;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return create_stream("cudaStreamCreate", stream, cudaStreamDefault, 0);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return create_stream("cudaStreamCreateWithFlags", stream, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return create_stream("cudaStreamCreateWithPriority", stream, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  EMULATED_GPU_CALL("cudaStreamDestroy");
  Runtime& runtime = Runtime::instance();
  if (runtime.streams.count(handle) == 0) return Call::result(cudaErrorInvalidResourceHandle);
  if (handle->capture) break_capture(*handle, cudaErrorStreamCaptureInvalidated);
  // The stream's remaining work is still done, and the legacy stream and the device wait for it.
  DeviceState& device = state_of(handle->gpu);
  device.last_of_destroyed = Engine::instance().add(nullptr, {device.last_of_destroyed, handle->tail}, handle->gpu);
  if ((handle->flags & cudaStreamNonBlocking) == 0) {
    device.last_of_destroyed_blocking =
        Engine::instance().add(nullptr, {device.last_of_destroyed_blocking, handle->tail}, handle->gpu);
  }
  runtime.streams.erase(handle);
  if (handle->capture) handle->capture->streams.erase(handle);
  delete handle;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  EMULATED_GPU_CALL("cudaStreamSynchronize");
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  if (stream->capture) return Call::result(break_capture(*stream, cudaErrorStreamCaptureUnsupported));
  if (const cudaError_t error = refuse_in_capture(); error != cudaSuccess) return Call::result(error);
  return Call::result(call.wait_for(end_of(*stream), stream->gpu));
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  EMULATED_GPU_CALL("cudaStreamQuery");
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  if (stream->capture) return Call::result(break_capture(*stream, cudaErrorStreamCaptureUnsupported));
  if (const cudaError_t error = refuse_in_capture(); error != cudaSuccess) return Call::result(error);
  if (state_of(stream->gpu).sticky != cudaSuccess) return Call::result(state_of(stream->gpu).sticky);
  return Call::result(Engine::instance().look(end_of(*stream)) ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned int flags) {
  EMULATED_GPU_CALL("cudaStreamWaitEvent");
  CUstream_st* stream = find_stream(handle);
  CUevent_st* event = find_event(event_handle);
  if (stream == nullptr || event == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  if (flags != cudaEventWaitDefault) return Call::result(cudaErrorInvalidValue);  // other flags are not emulated
  if (stream->capture || event->capture) return Call::result(capture_wait(*stream, *event));
  if (event->is_recorded) mark(*stream, {event->node});
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  EMULATED_GPU_CALL("cudaLaunchHostFunc");
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  if (function == nullptr) return Call::result(cudaErrorInvalidValue);
  return Call::result(
      put(*stream, cudaGraphNodeTypeHost, [function, data] { return std::make_unique<HostFunction>(function, data); }));
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  EMULATED_GPU_CALL("cudaStreamGetPriority");
  const CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  *priority = stream->priority;
  return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned int* flags) {
  EMULATED_GPU_CALL("cudaStreamGetFlags");
  const CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  *flags = stream->flags;
  return cudaSuccess;
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  EMULATED_GPU_CALL("cudaStreamGetDevice");
  const CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  *device = stream->gpu;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  EMULATED_GPU_CALL("cudaDeviceGetStreamPriorityRange");
  if (least != nullptr) *least = least_priority;
  if (greatest != nullptr) *greatest = greatest_priority;
  return cudaSuccess;
}

}  // extern "C"
