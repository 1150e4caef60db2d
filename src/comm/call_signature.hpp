// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/exchange.hpp"
#include "base/hash.hpp"
#include "comm/collective_parts.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep {

/// A summary of a rank's call, in few bytes, that ranks compare: it is equal on all ranks that make the same call.
struct CallSignature {
  std::uint64_t call = 0;  ///< kind, dtype, operator, root and count, for error messages
  std::uint64_t hash = 0;  ///< hash of `call` and the label; after chained(), also of all calls before
  friend bool operator==(const CallSignature&, const CallSignature&) = default;

  [[nodiscard]] std::span<const std::byte> bytes() const { return std::as_bytes(std::span(this, 1)); }
};

CallSignature signature_of(const Collective& collective);

/// Returns the signature of a call that follows others: it is equal on two ranks only if all their previous calls are
/// equal, too.
/// @param before  the chained hash of the previous call; 0 for the first call
/// @cost  two simple instructions and a multiplication
inline CallSignature chained(const CallSignature& call, std::uint64_t before) {
  return {call.call, combine(call.hash, before)};
}

/// Returns the kind of a call; for a message between two ranks it is `send` on both sides.
CollectiveKind kind_of(const CallSignature& signature);

/// Returns text such as "all_reduce of 100 float32 (sum)".
std::string describe(const CallSignature& signature);

/// Returns Error{mismatch} that states what `rank` calls and what this rank calls.
Error disagreement(int rank, const CallSignature& theirs, const CallSignature& ours);

/// Returns the same error for an operation that precedes the one in which the mismatch is detected.
/// @param number    index of the operation in its communicator, from 0
/// @param is_first  whether all operations before that one are known to be equal
Error earlier_disagreement(int rank, const CallSignature& theirs, const CallSignature& ours, std::uint64_t number,
                           bool is_first);

/// @param signatures  the `bytes` of every rank's signature, by rank
/// @throws Error{mismatch}, with the same text on every rank, unless all are equal: it names the ranks that differ from
///         the majority, or all groups if there is no majority
void require_agreement(std::span<const std::byte> signatures);

/// @param counts  for every rank, by rank: the counts that it sends to each rank, then the counts that it receives from
///                each, as Count
/// @throws Error{mismatch}, with the same text on every rank, unless each rank sends to another what that one expects
void require_equal_pairs(std::span<const std::byte> counts);

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
