// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "lockstep/base/buffer.hpp"

namespace lockstep::ops::onednn {

/// Memory for the duration of one call. All operators of one Ops share it, because they run one after another.
/// Operators reserve at construction; a larger reservation may move it, so its address is queried at each call.
class Workspace {
 public:
  void reserve(std::size_t bytes);
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_.data()); }

 private:
  Allocation memory_;
};

}  // namespace lockstep::ops::onednn
