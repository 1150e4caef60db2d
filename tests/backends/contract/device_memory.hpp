// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends/contract/values.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::contract {

/// Puts the contract's buffers into the memory of the selected GPU.
class DeviceMemory : public Memory {
 public:
  [[nodiscard]] Allocation allocate(Bytes bytes) const override { return allocate_device(bytes); }
  [[nodiscard]] bool is_on_host() const override { return false; }
  void copy(void* to, const void* from, Bytes bytes) const override {
    copy_bytes(to, from, bytes, stream_.queue());
    stream_.synchronize();
  }

 private:
  mutable Stream stream_;
};

}  // namespace lockstep::contract
