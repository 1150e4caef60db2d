// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace lockstep {

/// Gathers a few bytes of every rank on all ranks without waiting, for back ends whose own operations cannot.
class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  /// Starts the next exchange. @param own  equally many bytes on all ranks; copied
  /// @pre the previous exchange is complete. @throws Error{transport}
  virtual void begin(std::span<const std::byte> own) = 0;
  /// Returns the bytes of all ranks, by rank; empty until all have arrived. Valid until the next begin. @throws
  /// Error{transport}
  virtual std::span<const std::byte> poll() = 0;
  /// Collective; no exchange may be under way. @throws Error{transport}
  virtual void close() = 0;
};

}  // namespace lockstep
