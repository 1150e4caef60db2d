// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comm/call_signature.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::backends {

/// Identifies the purpose of a message: it is equal on the sending and the receiving rank if both make the same call.
struct MessageTag {
  /// The channels of sends and recvs: one for envelopes, one for the remaining data.
  static constexpr int of_two = -1;
  static constexpr int rest_of_two = -2;

  int channel = 0;  ///< carries consecutive blocks of an operation, then those of the next operation on the channel
  std::uint64_t number = 0;  ///< running number of the operation or, for a send or recv, of the message
  CallSignature signature;

  friend bool operator==(const MessageTag&, const MessageTag&) = default;
};

/// Transports the messages of one communicator. Between two ranks, messages with the same tag arrive in the order in
/// which they were sent. A message whose tag is not awaited stays where it is: either it is early, or its sender makes
/// a different call. Ranks find out which by asking each other (`ControlChannel::ask`). No call waits; memory must not
/// be touched until `test` returns true.
class Medium {
 public:
  /// A message in flight. It is valid until `test` returns true.
  struct Ticket {
    int index = -1;
  };

  virtual ~Medium() = default;
  /// @throws Error{transport}
  virtual Ticket send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) = 0;
  /// Overwrites `bytes` bytes at `data`. @throws Error{transport}
  virtual Ticket receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) = 0;
  /// Returns whether the message is complete; the ticket is invalid afterwards.
  /// @throws Error{transport}; Error{mismatch} if it has another size
  virtual bool test(Ticket ticket) = 0;
  /// Returns whether the program's own messages use the same library, and advance only while somebody calls it. A rank
  /// that waits and makes no other call to this medium then calls `help_others` at intervals.
  [[nodiscard]] virtual bool is_shared() const { return false; }
  /// @return whether it seems to have advanced one of those messages, so that it should be called again soon
  /// @throws Error{transport}
  virtual bool help_others() { return false; }
  /// Releases what the medium holds. Collective. @throws Error{transport}
  virtual void close() = 0;
};

}  // namespace lockstep::backends
