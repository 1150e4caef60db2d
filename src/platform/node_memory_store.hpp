#pragma once

#include <optional>

#include "lockstep/platform/node_memory.hpp"

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
  [[nodiscard]] virtual std::optional<int> dead_peer() const = 0;
  /// This rank goes in good order.
  virtual void leave() = 0;
};

}  // namespace lockstep
