// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/comm/collective.hpp"

namespace lockstep {

/// Copies of the per-rank counts of an operation that begins after its submission, because the caller's counts are
/// valid only during submission. Allocates nothing if there were as many counts before.
class KeptCounts {
 public:
  /// Copies the counts and makes the collective refer to the copies.
  void keep(Collective& collective) {
    parts_.assign(collective.parts.begin(), collective.parts.end());
    received_.assign(collective.received.begin(), collective.received.end());
    collective.parts = parts_;
    collective.received = received_;
  }
  /// Returns the counts sent to each rank, followed by the counts received from each rank.
  [[nodiscard]] std::span<const std::byte> bytes() {
    both_.assign(parts_.begin(), parts_.end());
    both_.insert(both_.end(), received_.begin(), received_.end());
    return std::as_bytes(std::span(both_));
  }

 private:
  std::vector<Count> parts_;
  std::vector<Count> received_;
  std::vector<Count> both_;
};

}  // namespace lockstep
