// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace lockstep {

/// Shows a few bytes of every rank to all of them, without waiting: for back ends whose own operations cannot.
class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  /// Takes part in the next exchange. @param own  as many bytes on all ranks; copied
  /// @pre the one before is done. @throws Error{transport}
  virtual void begin(std::span<const std::byte> own) = 0;
  /// Everybody's bytes, by rank; nothing until all are there. Valid until the next begin. @throws Error{transport}
  virtual std::span<const std::byte> poll() = 0;
  /// Collective; no exchange may be under way. @throws Error{transport}
  virtual void close() = 0;
};

}  // namespace lockstep
