// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/device.hpp"

namespace lockstep::trainer {

/// Copies between memory of the device and of the host, and waits for the copy.
inline void copy_and_wait(const ops::ComputeDevice& device, const Buffer& to, const ConstBuffer& from) {
  device.copy(to.data, from.data, from.bytes(), device.queue());
  device.wait(device.queue());
}

/// A device's memory as the host sees it: the memory itself, or a copy where the device has memory of its own.
class HostMirror {
 public:
  HostMirror(const ops::ComputeDevice& device, const Buffer& memory)
      : device_(&device), memory_(memory), view_(memory) {
    if (memory.kind != MemoryKind::device) return;
    copy_ = device.allocate_staging(memory.bytes());
    view_ = copy_.as(memory.dtype);
    copy_and_wait(device, view_, memory);
  }

  [[nodiscard]] const Buffer& buffer() const { return view_; }
  /// Overwrites the device's memory with what the host has written.
  void write_back() const {
    if (view_.data != memory_.data) copy_and_wait(*device_, memory_, view_);
  }

 private:
  const ops::ComputeDevice* device_;
  Buffer memory_;
  Allocation copy_;
  Buffer view_;
};

}  // namespace lockstep::trainer
