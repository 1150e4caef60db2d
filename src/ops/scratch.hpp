// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lockstep/base/buffer.hpp"

namespace lockstep::ops {

/// Memory for the duration of one call. All kernels of one `Ops` share it, because they run one after another. They
/// reserve at construction; a larger reservation may move it, so its address is queried at each call.
class Scratch {
 public:
  /// Grows it to at least this size. Its contents are lost.
  void reserve(Bytes bytes) {
    if (bytes.value > memory_.bytes().value) memory_ = allocate_host(bytes);
  }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_.data()); }

 private:
  Allocation memory_;
};

}  // namespace lockstep::ops
