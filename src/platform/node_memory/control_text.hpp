// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/error.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep {

/// The alarm of a rank that fails.
struct Alarm {
  ErrorCode code = ErrorCode::transport;
  int rank = -1;
  std::vector<int> peers;
  std::string host;
  std::string reason;
};

/// The text of an alarm in a node's word: "3 1 1 2 host7\tnothing has moved for 300.00 s" for the code, the rank, the
/// number of peers, the peer 2, the host and the reason.
std::string to_text(const Alarm& alarm);
Alarm alarm_from(const std::string& text);

/// The types of messages between nodes. An AlarmText is the text in the word.
struct AlarmText {
  std::string text;
};
struct Closing {  ///< sent by the first rank that closes on a node of `ranks` ranks
  std::uint64_t operations = 0;
  int rank = 0;
  std::size_t ranks = 0;
  std::vector<ControlChannel::Call> calls;  ///< the sender's last calls, with consecutive numbers
};
struct Quiet {  ///< the last message of a node of `ranks` ranks
  std::size_t ranks = 0;
};
struct Asking {
  ControlChannel::Question question;
  std::vector<ControlChannel::Call> calls;  ///< as in Closing
};
struct Inquiry {  ///< asks a rank which ranks it waits for
  int rank = 0;   ///< the asking rank
};
struct Answer {
  int rank = 0;  ///< the answering rank
  ControlChannel::Standing standing;
};
using ControlMessage = std::variant<AlarmText, Closing, Quiet, Asking, Inquiry, Answer>;

std::string to_text(const ControlMessage& message);
ControlMessage message_from(const std::string& text);

}  // namespace lockstep
