// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <stdexcept>
#include <thread>

#include "emulated_gpu/cuda/runtime.hpp"
#include "emulated_gpu/device/faults.hpp"
#include "emulated_gpu/device/violation.hpp"

namespace emulated_gpu {
namespace {

thread_local int selected_gpu = 0;
thread_local int host_functions = 0;
thread_local int number_of_thread = -1;

/// Returns a number that no other thread of the process has.
int this_threads_number() {
  static int threads = 0;
  if (number_of_thread < 0) number_of_thread = threads++;
  return number_of_thread;
}

Machine machine_of_process() {
  try {
    return read_machine();
  } catch (const std::runtime_error& error) {
    violation(error.what());
  }
}

}  // namespace

Runtime& Runtime::instance() {
  static auto* runtime = new Runtime;
  return *runtime;
}

Runtime::Runtime() : machine(machine_of_process()), devices(machine.devices.size()) {
  for (std::size_t gpu = 0; gpu < devices.size(); ++gpu) {
    devices[gpu].legacy.gpu = static_cast<int>(gpu);
    devices[gpu].legacy.is_legacy = true;
  }
}

std::recursive_mutex& device_lock() { return Engine::instance().lock(); }
void let_the_gpus_work() { Engine::instance().work(); }
int& current_gpu() { return selected_gpu; }
DeviceState& state_of(int gpu) { return Runtime::instance().devices[static_cast<std::size_t>(gpu)]; }

HostFunctionScope::HostFunctionScope() { ++host_functions; }
HostFunctionScope::~HostFunctionScope() { --host_functions; }

Call::Call(const char* name, Capturing capturing) : lock_(device_lock()) {
  record_call(name);
  Runtime& runtime = Runtime::instance();
  if (host_functions > 0) {
    error_ = cudaErrorNotPermitted;
    return;
  }
  if (runtime.devices.empty()) {
    error_ = cudaErrorNoDevice;
    return;
  }
  DeviceState& device = state_of(current_gpu());
  if (const auto injected = injected_fault(name)) {
    const bool is_lost = *injected == "lost";  // like a GPU that has fallen off the bus
    const cudaError_t error = error_named(*injected);
    if (!is_lost && !is_sticky(error)) {
      error_ = error;
      return;
    }
    device.sticky = is_lost ? cudaErrorUnknown : error;
    Engine::instance().lose(current_gpu());
  }
  if (device.sticky != cudaSuccess) {
    error_ = device.sticky;
    return;
  }
  if (capturing == Capturing::refused) error_ = refuse_in_capture();
  Engine::instance().work();
}

cudaError_t Call::result(cudaError_t code) {
  // @source CUDA C++ Programming Guide 13.0, error checking: cudaErrorNotReady is not an error.
  if (code != cudaSuccess && code != cudaErrorNotReady) set_last_error(code);
  return code;
}

cudaError_t Call::wait_for(const NodePtr& node, int gpu) {
  lock_.unlock();
  Engine::instance().wait(node, [gpu] { return state_of(gpu).sticky != cudaSuccess; });
  lock_.lock();
  return state_of(gpu).sticky;
}

cudaError_t Call::wait_for_device(int gpu) { return wait_for(Engine::instance().add(nullptr, all_of(gpu), gpu), gpu); }

CUstream_st* find_stream(cudaStream_t handle) {
  DeviceState& device = state_of(current_gpu());
  if (handle == nullptr || handle == cudaStreamLegacy) return &device.legacy;
  if (handle == cudaStreamPerThread) {
    auto& stream = device.per_thread[this_threads_number()];
    if (!stream) stream = std::make_unique<CUstream_st>();
    stream->gpu = current_gpu();
    return stream.get();
  }
  return Runtime::instance().streams.count(handle) == 0 ? nullptr : handle;
}

CUevent_st* find_event(cudaEvent_t handle) { return Runtime::instance().events.count(handle) == 0 ? nullptr : handle; }

std::vector<NodePtr> order_behind(const CUstream_st& stream) {
  std::vector<NodePtr> after = {stream.tail};
  if ((stream.flags & cudaStreamNonBlocking) != 0) return after;
  DeviceState& device = state_of(stream.gpu);
  if (!stream.is_legacy) {
    after.push_back(device.legacy.tail);
    return after;
  }
  for (const CUstream_st* other : Runtime::instance().streams)
    if (other->gpu == stream.gpu && (other->flags & cudaStreamNonBlocking) == 0) after.push_back(other->tail);
  for (const auto& [thread, other] : device.per_thread) after.push_back(other->tail);
  after.push_back(device.last_of_destroyed_blocking);
  return after;
}

std::vector<NodePtr> all_of(int gpu) {
  DeviceState& device = state_of(gpu);
  std::vector<NodePtr> all = {device.legacy.tail, device.last_of_destroyed};
  for (const CUstream_st* stream : Runtime::instance().streams)
    if (stream->gpu == gpu) all.push_back(stream->tail);
  for (const auto& [thread, stream] : device.per_thread) all.push_back(stream->tail);
  return all;
}

cudaError_t put(CUstream_st& stream, cudaGraphNodeType kind, Recipe recipe) {
  if (const cudaError_t sticky = state_of(stream.gpu).sticky; sticky != cudaSuccess) return sticky;
  if (stream.capture) return capture_node(stream, kind, std::move(recipe));
  if (const cudaError_t error = refuse_legacy_in_capture(stream); error != cudaSuccess) return error;
  std::vector<NodePtr> after = order_behind(stream);
  stream.tail = Engine::instance().add(recipe(), std::move(after), stream.gpu);
  Engine::instance().work();
  return cudaSuccess;
}

NodePtr mark(CUstream_st& stream, std::vector<NodePtr> also_after) {
  std::vector<NodePtr> after = order_behind(stream);
  after.insert(after.end(), also_after.begin(), also_after.end());
  stream.tail = Engine::instance().add(nullptr, std::move(after), stream.gpu);
  return stream.tail;
}

cudaError_t enqueue(cudaStream_t handle, cudaGraphNodeType kind, Recipe recipe,
                    const std::vector<const void*>& registered) {
  const std::scoped_lock lock(device_lock());
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const cudaError_t error = put(*stream, kind, std::move(recipe));
  if (error == cudaSuccess && stream->capture)
    stream->capture->graph->nodes.back()->memory = std::make_shared<GraphMemory>(registered);
  return error;
}

DeviceIdentity current_device() {
  const Runtime& runtime = Runtime::instance();
  if (runtime.devices.empty()) return {};
  const Device& device = runtime.machine.devices[static_cast<std::size_t>(current_gpu())];
  return {current_gpu(), device.uuid, device.pci};
}

}  // namespace emulated_gpu
