// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cuda_device.hpp"

#include "platform/gpu/gpu.hpp"

namespace lockstep::ops {
namespace {

class CudaGraph final : public ExecutableGraph {
 public:
  explicit CudaGraph(Queue stream) : graph_(stream) {}
  void launch(Queue queue) const override { graph_.launch(queue); }

 private:
  CapturedGraph graph_;
};

class CudaEvent final : public DeviceEvent {
 public:
  void record(Queue queue) override { event_.record(queue); }
  void hold_back(Queue queue) const override { event_.hold_back(queue); }
  [[nodiscard]] bool is_done() const override { return event_.reached(); }

 private:
  Event event_;
};

class CudaDevice final : public ComputeDevice {
 public:
  using ComputeDevice::ComputeDevice;
  [[nodiscard]] std::string_view name() const override { return "cuda"; }
  [[nodiscard]] Queue queue() const override { return stream_.queue(); }
  [[nodiscard]] Queue copy_queue() const override { return copy_stream_.queue(); }
  [[nodiscard]] std::optional<DeviceMemory> memory() const override {
    const GpuMemory memory = gpu_memory();
    return DeviceMemory{memory.free, memory.total};
  }
  [[nodiscard]] Allocation allocate(Bytes bytes) const override { return allocate_device(bytes); }
  [[nodiscard]] Allocation allocate_staging(Bytes bytes) const override { return allocate_pinned(bytes); }
  void copy(void* to, const void* from, Bytes bytes, Queue queue) const override {
    if (bytes.value > 0) copy_bytes(to, from, bytes, queue);
  }
  void clear(void* memory, Bytes bytes, Queue queue) const override {
    if (bytes.value > 0) clear_bytes(memory, bytes, queue);
  }
  [[nodiscard]] bool is_idle(Queue queue) const override { return is_done(queue); }
  [[nodiscard]] std::unique_ptr<DeviceEvent> new_event() const override { return std::make_unique<CudaEvent>(); }

  [[nodiscard]] std::unique_ptr<ExecutableGraph> capture(Queue queue,
                                                         const std::function<void()>& submit) const override {
    CapturedGraph::begin(queue);
    try {
      submit();
    } catch (...) {
      try {
        const CapturedGraph discarded(queue);
      } catch (const Error&) {  // the capture has failed with the submission
      }
      throw;
    }
    return std::make_unique<CudaGraph>(queue);
  }

 private:
  Stream stream_;
  Stream copy_stream_;
};

}  // namespace

std::unique_ptr<ComputeDevice> make_cuda_device(int gpu, std::chrono::duration<double> deadline) {
  select_gpu(gpu);
  return std::make_unique<CudaDevice>(deadline);
}

}  // namespace lockstep::ops
