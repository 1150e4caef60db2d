// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/platform/node_memory.hpp"
#include "platform/node_memory_layout.hpp"

namespace lockstep {

/// What differs between ranks that are processes and ranks that are threads.
class NodeMemory::Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  /// @pre bytes > 0
  virtual Allocation allocate(Bytes bytes) = 0;
  [[nodiscard]] virtual std::optional<LostPeer> lost_peer() const = 0;
  /// This rank goes.
  virtual void leave(Departure how) noexcept = 0;
};

}  // namespace lockstep
