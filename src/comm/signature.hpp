// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lockstep/base/error.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep {

/// What a rank calls, in few bytes for ranks to compare: equal on all that do the same.
struct Signature {
  std::uint64_t call = 0;  ///< kind, dtype, operator, root and count, for error messages
  std::uint64_t hash = 0;  ///< of all that and the label, every bit of which depends on everything; after chained() of
                           ///< all calls before, too
  friend bool operator==(const Signature&, const Signature&) = default;

  [[nodiscard]] std::span<const std::byte> bytes() const { return std::as_bytes(std::span(this, 1)); }
};

Signature signature_of(const Collective& collective);

/// The signature of a call that follows others: it is equal on two ranks only if all their calls before are, too.
/// @param before  the hash of the call before it, chained as well; 0 for the first
/// @cost  two operations of the processor's, and a multiplication
inline Signature chained(const Signature& call, std::uint64_t before) {
  const std::uint64_t product = (call.hash ^ before) * 0x9e3779b97f4a7c15ULL;
  return {call.call, product ^ product >> 32U};
}

/// Of a message between two ranks, `send` on either side.
CollectiveKind kind_of(const Signature& signature);

/// "all_reduce of 100 float32 (sum)"
std::string describe(const Signature& signature);

/// Error{mismatch} that says what `rank` calls and what this rank does.
Error disagreement(int rank, const Signature& theirs, const Signature& ours);

/// The same for an operation before the one in which it is noticed.
/// @param number    of the operation among those of the communicator, from 0
/// @param is_first  whether all operations before that one are known to be the same
Error earlier_disagreement(int rank, const Signature& theirs, const Signature& ours, std::uint64_t number,
                           bool is_first);

/// @param signatures  the `bytes` of every rank's, by rank
/// @throws Error{mismatch}, in the same words on every rank, unless all are equal: it names the ranks that differ from
///         the majority, and where there is none all groups
void require_agreement(std::span<const std::byte> signatures);

/// @param counts  of every rank, by rank, what it sends to each rank and what it receives from each, as Count
/// @throws Error{mismatch}, in the same words on every rank, unless what each sends to another is what that one expects
void require_equal_pairs(std::span<const std::byte> counts);

}  // namespace lockstep
