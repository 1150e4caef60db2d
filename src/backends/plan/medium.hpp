// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comm/signature.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::backends {

/// What a message is for: the same on the rank that sends it and on the one that awaits it, if both call the same.
struct MessageTag {
  /// The channels of what is between two ranks: of what a message begins with, and of the rest.
  static constexpr int of_two = -1;
  static constexpr int rest_of_two = -2;

  int channel = 0;           ///< carries block after block of an operation, then those of the next one that has it
  std::uint64_t number = 0;  ///< of the operation, in the order of submission; between two ranks, of the message
  Signature signature;

  friend bool operator==(const MessageTag&, const MessageTag&) = default;
};

/// Carries the messages of one communicator. Between two ranks, messages of one tag arrive in the order they were sent.
/// What is of another tag than is awaited stays where it is: it is early, or of somebody who calls something else, and
/// which of the two, ranks find out by asking each other (`ControlChannel::ask`). Neither call waits; memory stays
/// untouched until `test` says so.
class Medium {
 public:
  /// A message under way. Valid until `test` returns true.
  struct Ticket {
    int index = -1;
  };

  virtual ~Medium() = default;
  /// @throws Error{transport}
  virtual Ticket send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) = 0;
  /// Overwrites `bytes` bytes at `data`. @throws Error{transport}
  virtual Ticket receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) = 0;
  /// Whether the message is complete; then the ticket is used up.
  /// @throws Error{transport}; Error{mismatch} if it has another size
  virtual bool test(Ticket ticket) = 0;
  /// Whether a program's own messages go the same way, and advance only while somebody calls the library that carries
  /// them: then `help_others` is to be called now and then by a rank that waits and calls nothing else of this.
  [[nodiscard]] virtual bool is_shared() const { return false; }
  /// @return whether it seems to have moved any of theirs, so that it should soon be called again
  /// @throws Error{transport}
  virtual bool help_others() { return false; }
  /// Releases what the medium holds. Collective. @throws Error{transport}
  virtual void close() = 0;
};

}  // namespace lockstep::backends
