// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <chrono>
#include <cstdint>
#include <string>

#include "comm/call_signature.hpp"
#include "lockstep/base/error.hpp"
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
  /// Blocks until a message of this rank may advance, at most so long.
  /// @return false, at once, if the medium has no way to be woken by all of them
  virtual bool sleep(std::chrono::nanoseconds /*at_most*/) { return false; }
  /// Releases what the medium holds. Collective. @throws Error{transport}
  virtual void close() = 0;
};

/// The error for a message of another size than expected: either two ranks have different counts for each other, or two
/// signatures are equal in the bits that fit into a tag. @param arrived  its size, as in "16 where " or "more than "
inline Error other_size(int rank, const std::string& arrived, Bytes expected) {
  return Error(ErrorCode::mismatch,
               "rank " + std::to_string(rank) + " sent a message of " + arrived + std::to_string(expected.value) +
                   " bytes were expected: do both ranks pass the same count?",
               {.peers = {rank}});
}

/// The packing of a MessageTag into an MPI tag, which may have only 15 bits: first the channel (the channels of sends
/// and recvs follow those of blocks), then a quarter of the remaining bits for the operation's number and the rest for
/// its signature.
/// Correctness does not depend on the number: a rank may be any number of operations ahead, because the messages of a
/// channel are sent and received in the same order. The number distinguishes equal calls at different positions. Every
/// bit of the signature halves the number of different calls that match nevertheless.
struct TagBits {
  /// @throws Error{unsupported} if the channels alone do not fit
  TagBits(unsigned bits_of_a_tag, int channels)
      : channels_of_all(channels), channel(static_cast<unsigned>(std::bit_width(static_cast<unsigned>(channels + 1)))) {
    if (channel > bits_of_a_tag) {
      throw Error(ErrorCode::unsupported,
                  "MPI's tags have " + std::to_string(bits_of_a_tag) + " bits, too few for the " +
                      std::to_string(channels) +
                      " blocks that may be under way: allow fewer operations, or blocks of each, in flight");
    }
    number = (bits_of_a_tag - channel) / 4;
    signature = bits_of_a_tag - channel - number;
  }

  [[nodiscard]] int pack(const MessageTag& tag) const {
    const std::uint64_t upper = lowest(signature, tag.signature.hash) << number | lowest(number, tag.number);
    const int on_channel = tag.channel < 0 ? channels_of_all + MessageTag::of_two - tag.channel : tag.channel;
    return static_cast<int>(upper << channel | static_cast<unsigned>(on_channel));
  }

  static std::uint64_t lowest(unsigned bits, std::uint64_t value) { return value & ((std::uint64_t{1} << bits) - 1U); }

  int channels_of_all;
  unsigned channel;
  unsigned number;
  unsigned signature;
};

}  // namespace lockstep::backends
