// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/comm/collective.hpp"

namespace lockstep {

/// The counts of parts of an operation that is begun after its submission, which is as long as the caller's are valid.
/// Without an allocation where there were as many before.
class KeptCounts {
 public:
  /// Lets the collective have counts of its own.
  void keep(Collective& collective) {
    parts_.assign(collective.parts.begin(), collective.parts.end());
    received_.assign(collective.received.begin(), collective.received.end());
    collective.parts = parts_;
    collective.received = received_;
  }
  /// What is sent to each rank, then what is received from each.
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
