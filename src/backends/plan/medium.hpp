// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comm/signature.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::backends {

/// What a message is for: the same on the rank that sends it and on the one that awaits it, if both call the same.
struct MessageTag {
  /// Of what all do together.
  static constexpr int everybody = -1;
  /// The lanes of what is between two ranks: of what a message begins with, and of the rest.
  static constexpr int of_two = -1;
  static constexpr int rest_of_two = -2;

  int lane = 0;              ///< carries block after block of an operation, then those of the slot's next one
  std::uint64_t number = 0;  ///< of the operation, in the order of submission; between two ranks, of the message
  Signature signature;
  int from = everybody;  ///< who sends it, where it is between two ranks

  friend bool operator==(const MessageTag&, const MessageTag&) = default;

  /// Whether it is of this very operation, by somebody who calls something else.
  [[nodiscard]] bool contradicts(const MessageTag& ours) const {
    return from == ours.from && number == ours.number && signature != ours.signature;
  }
};

/// What a rank that finds another one to do something else tells all of them: most would wait for ever for what either
/// of the two does not do.
struct Complaint {
  int by = 0;
  int about = 0;
  Signature call;  ///< of the one that complains
};

/// What a rank makes of it that waits in `ours`.
Error mismatch_after(const Complaint& complaint, const Signature& ours);

/// Carries the messages of one communicator. Between two ranks, messages of one tag arrive in the order they were sent.
/// Neither call waits; memory stays untouched until `test` says so.
class Medium {
 public:
  /// A message under way. Valid until `test` returns true.
  struct Ticket {
    int slot = -1;
  };

  virtual ~Medium() = default;
  /// @throws Error{transport}
  virtual Ticket send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) = 0;
  /// Overwrites `bytes` bytes at `data`. @throws Error{transport}
  virtual Ticket receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) = 0;
  /// Whether the message is complete; then the ticket is used up.
  /// @throws Error{transport}; Error{mismatch} if it has another size
  virtual bool test(Ticket ticket) = 0;
  /// To be called while an operation waits for long: looks at the messages that nobody here awaits.
  /// @throws Error{mismatch} if one of them contradicts `ours`, or a rank has complained; Error{transport}
  virtual void look(const MessageTag& ours) = 0;
  /// Whether a program's own messages go the same way, and advance only while somebody calls the library that carries
  /// them: then `help_others` is to be called now and then by a rank that waits and calls nothing else of this.
  [[nodiscard]] virtual bool is_shared() const { return false; }
  /// @throws Error{transport}
  virtual void help_others() {}
  /// Releases what the medium holds. Collective. @throws Error{transport}
  virtual void close() = 0;
};

}  // namespace lockstep::backends
