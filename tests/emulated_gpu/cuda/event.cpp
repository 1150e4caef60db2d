// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/cuda/runtime.hpp"

using namespace emulated_gpu;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  EMULATED_GPU_CALL("cudaEventCreateWithFlags");
  constexpr unsigned known = cudaEventBlockingSync | cudaEventDisableTiming;  // no interprocess events
  if (event == nullptr || (flags & ~known) != 0) return Call::result(cudaErrorInvalidValue);
  auto* made = new CUevent_st;
  made->gpu = current_gpu();
  made->flags = flags;
  Runtime::instance().events.insert(made);
  *event = made;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  EMULATED_GPU_CALL("cudaEventDestroy");
  if (find_event(handle) == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  Runtime::instance().events.erase(handle);
  delete handle;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  EMULATED_GPU_CALL("cudaEventRecord");
  CUevent_st* event = find_event(handle);
  CUstream_st* stream = find_stream(stream_handle);
  if (event == nullptr || stream == nullptr || event->gpu != stream->gpu)
    return Call::result(cudaErrorInvalidResourceHandle);
  if (stream->capture) return Call::result(capture_record(*stream, *event));
  event->node = mark(*stream);
  event->is_recorded = true;
  event->capture.reset();
  event->captured.clear();
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream, unsigned int flags) {
  if (flags != cudaEventRecordDefault) return Call::result(cudaErrorInvalidValue);  // other flags are not emulated
  return cudaEventRecord(handle, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  EMULATED_GPU_CALL("cudaEventQuery", Call::Capturing::refused);
  CUevent_st* event = find_event(handle);
  if (event == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  if (event->capture) return Call::result(break_capture_of(*event, cudaErrorCapturedEvent));
  if (state_of(event->gpu).sticky != cudaSuccess) return Call::result(state_of(event->gpu).sticky);
  return Call::result(Engine::instance().look(event->node) ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  EMULATED_GPU_CALL("cudaEventSynchronize", Call::Capturing::refused);
  CUevent_st* event = find_event(handle);
  if (event == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  if (event->capture) return Call::result(break_capture_of(*event, cudaErrorCapturedEvent));
  return Call::result(call.wait_for(event->node, event->gpu));
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start_handle, cudaEvent_t end_handle) {
  EMULATED_GPU_CALL("cudaEventElapsedTime", Call::Capturing::refused);
  const CUevent_st* start = find_event(start_handle);
  const CUevent_st* end = find_event(end_handle);
  if (start == nullptr || end == nullptr || !start->is_recorded || !end->is_recorded || start->gpu != end->gpu)
    return Call::result(cudaErrorInvalidResourceHandle);
  if (((start->flags | end->flags) & cudaEventDisableTiming) != 0) return Call::result(cudaErrorInvalidResourceHandle);
  if (!Engine::is_done(start->node) || !Engine::is_done(end->node)) return Call::result(cudaErrorNotReady);
  const auto span = Engine::done_at(end->node) - Engine::done_at(start->node);
  *milliseconds = std::chrono::duration<float, std::milli>(span).count();
  return cudaSuccess;
}

}  // extern "C"
