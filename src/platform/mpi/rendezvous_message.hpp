// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// The purpose of a message, which is its first byte.
enum class MessageKind : char {
  question = 'Q',  ///< the sender's deadline has passed; receivers that wait too answer
  answer = 'A',    ///< the sender waits
  gone_on = 'G',   ///< the sender's call has completed, so it takes its question back
  verdict = 'V',   ///< the members named first are missing
};

struct RendezvousMessage {
  MessageKind kind;
  std::uint64_t meeting = 0;  ///< the group in which the sender waits
  std::uint64_t wait = 0;     ///< number of the sender's wait; of an answer, that of the question
  std::string host;
  std::string text;
};

std::string to_text(const RendezvousMessage& message);
/// @return nothing if the text is not a message of a Rendezvous
std::optional<RendezvousMessage> rendezvous_message_from(const std::string& text);

}  // namespace lockstep
