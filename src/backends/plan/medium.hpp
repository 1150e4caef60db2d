#pragma once

#include "lockstep/base/types.hpp"

namespace lockstep::backends {

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
  virtual Ticket send(Rank peer, int tag, const void* data, Bytes bytes) = 0;
  /// Overwrites `bytes` bytes at `data`. @throws Error{transport}
  virtual Ticket receive(Rank peer, int tag, void* data, Bytes bytes) = 0;
  /// Whether the message is complete; then the ticket is used up. @throws Error{transport}
  virtual bool test(Ticket ticket) = 0;
  /// Releases what the medium holds. Collective. @throws Error{transport}
  virtual void close() = 0;
};

}  // namespace lockstep::backends
