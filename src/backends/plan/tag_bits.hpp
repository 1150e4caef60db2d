// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "backends/plan/medium.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::backends {

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
