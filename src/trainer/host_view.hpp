// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "lockstep/ops/device.hpp"

namespace lockstep::trainer {

/// A device's memory as the host sees it: the memory itself, or a copy where the device has memory of its own.
class HostView {
 public:
  HostView(const ops::ComputeDevice& device, const Buffer& memory) : device_(&device), memory_(memory), view_(memory) {
    if (memory.kind != MemoryKind::device) return;
    copy_ = device.allocate_staging(memory.bytes());
    view_ = copy_.as(memory.dtype);
    copy(view_.data, memory.data);
  }

  [[nodiscard]] const Buffer& buffer() const { return view_; }
  /// Overwrites the device's memory with what the host has written.
  void write_back() const {
    if (view_.data != memory_.data) copy(memory_.data, view_.data);
  }

 private:
  void copy(void* to, const void* from) const {
    device_->copy(to, from, memory_.bytes(), device_->queue());
    device_->wait(device_->queue());
  }

  const ops::ComputeDevice* device_;
  Buffer memory_;
  Allocation copy_;
  Buffer view_;
};

}  // namespace lockstep::trainer
