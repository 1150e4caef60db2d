// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// What a message is for; its first byte.
enum class MessageKind : char {
  question = 'Q',  ///< the sender has waited for its deadline: answer, if you wait too
  answer = 'A',    ///< the sender waits
  gone_on = 'G',   ///< the sender's call has completed after all
  verdict = 'V',   ///< the members named first are missing
};

struct RendezvousMessage {
  MessageKind kind;
  std::uint64_t meeting = 0;  ///< the group in which the sender waits
  std::uint64_t wait = 0;     ///< of a question: the sender's wait; of an answer: that of the question
  std::string host;
  std::string text;
};

std::string to_text(const RendezvousMessage& message);
/// @return nothing for what no Rendezvous has sent
std::optional<RendezvousMessage> rendezvous_message_from(const std::string& text);

}  // namespace lockstep
