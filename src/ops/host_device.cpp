// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstring>
#include <memory>

#include "lockstep/ops/device.hpp"

namespace lockstep::ops {
namespace {

class HostEvent final : public Device::Event {
 public:
  void record(Queue /*queue*/) override {}
  void hold_back(Queue /*queue*/) const override {}
  [[nodiscard]] bool is_done() const override { return true; }
};

class HostDevice final : public Device {
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
  [[nodiscard]] std::unique_ptr<Event> new_event() const override { return std::make_unique<HostEvent>(); }
};

}  // namespace

const Device& host_device() {
  static const HostDevice device;
  return device;
}

}  // namespace lockstep::ops
