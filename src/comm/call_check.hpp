// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/exchange.hpp"
#include "comm/call_signature.hpp"
#include "comm/kept_counts.hpp"

namespace lockstep {

/// Compares what all ranks call before one operation starts: their signatures and, for an all_to_all_v, the counts,
/// which a signature cannot hold because they differ between ranks.
class CallCheck {
 public:
  /// @param exchange  outlives the check
  void begin(Exchange& exchange, const CallSignature& signature) {
    exchange_ = &exchange;
    compares_counts_ = false;
    exchange_->begin(signature.bytes());
  }
  /// @param counts  the counts of this rank's call, which has the kind `kind`
  /// @return whether everything has been compared; true at once if there is nothing to compare
  /// @throws Error{mismatch}, with the same text on all ranks; Error{transport}
  bool poll(CollectiveKind kind, KeptCounts& counts) {
    if (exchange_ == nullptr) return true;
    const auto of_all = exchange_->poll();
    if (of_all.empty()) return false;
    if (!compares_counts_) require_agreement(of_all);
    if (compares_counts_) require_equal_pairs(of_all);
    if (kind == CollectiveKind::all_to_all_v && !compares_counts_) {
      compares_counts_ = true;
      exchange_->begin(counts.bytes());
      return false;
    }
    exchange_ = nullptr;
    return true;
  }

 private:
  Exchange* exchange_ = nullptr;  // set while a comparison is pending
  bool compares_counts_ = false;
};

}  // namespace lockstep
