// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::comm_bench {

/// The communication that a measurement needs among its ranks, implemented by comm-bench's own communicator or by that
/// of a peer's program. Every function is collective; none is timed.
class Ranks {
 public:
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  virtual ~Ranks() = default;

  [[nodiscard]] virtual int size() const = 0;
  /// Returns when every rank has called it.
  virtual void barrier() = 0;
  /// Overwrites each number with the maximum over all ranks.
  virtual void max(std::span<std::int64_t> numbers) = 0;
  /// Overwrites each number with the sum over all ranks.
  virtual void sum(std::span<std::int64_t> numbers) = 0;
};

}  // namespace lockstep::comm_bench
