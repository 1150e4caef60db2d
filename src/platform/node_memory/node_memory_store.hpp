// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "platform/node_memory/node_memory.hpp"

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
  /// This rank has left in order and reaches into nothing of the group's any more.
  virtual void left_in_order() = 0;
  /// Whether a rank can go alone, so that the others have to look.
  [[nodiscard]] virtual bool has_mortal_ranks() const = 0;
  /// Whether the process of `peer`, another rank, is known to have ended.
  [[nodiscard]] virtual bool has_ended(int peer) const = 0;
};

}  // namespace lockstep
