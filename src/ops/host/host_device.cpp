// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/ops/device.hpp"

namespace lockstep::ops {
namespace {

class HostEvent final : public DeviceEvent {
 public:
  void record(Queue /*queue*/) override {}
  void hold_back(Queue /*queue*/) const override {}
  [[nodiscard]] bool is_done() const override { return true; }
};

class HostDevice final : public ComputeDevice {
 public:
  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] Queue queue() const override { return Queue::host(); }
  [[nodiscard]] Allocation allocate(Bytes bytes) const override { return allocate_host(bytes); }
  [[nodiscard]] Allocation allocate_staging(Bytes bytes) const override { return allocate_host(bytes); }
  void copy(void* to, const void* from, Bytes bytes, Queue /*queue*/) const override {
    if (bytes.value > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes.value));
  }
  void clear(void* memory, Bytes bytes, Queue /*queue*/) const override {
    if (bytes.value > 0) std::memset(memory, 0, static_cast<std::size_t>(bytes.value));
  }
  [[nodiscard]] bool is_idle(Queue /*queue*/) const override { return true; }
  [[nodiscard]] std::unique_ptr<DeviceEvent> new_event() const override { return std::make_unique<HostEvent>(); }
};

}  // namespace

void ComputeDevice::wait(Queue queue) const {
  const Clock::time_point begin = Clock::now();
  while (!is_idle(queue)) {
    const std::chrono::duration<double> waited = Clock::now() - begin;
    if (waited < deadline_) continue;
    throw Error(ErrorCode::timeout, "device '" + std::string(name()) + "' has not finished its work after " +
                                        std::to_string(waited.count()) +
                                        " s, so a kernel hangs: look for the driver's messages (dmesg shows Xid), and "
                                        "leave this GPU out");
  }
}

const ComputeDevice& host_device() {
  static const HostDevice device;
  return device;
}

}  // namespace lockstep::ops
