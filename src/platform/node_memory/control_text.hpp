// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/error.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep {

/// What a rank has to say that takes part no more.
struct Alarm {
  ErrorCode code = ErrorCode::transport;
  int rank = -1;
  std::vector<int> peers;
  std::string host;
  std::string reason;
};

/// As it stands in a node's word: "3 1 1 2 host7\tnothing has moved for 300.00 s" for a code, a rank, one peer, 2, a
/// host and the reason.
std::string to_text(const Alarm& alarm);
Alarm alarm_from(const std::string& text);

/// Messages between nodes. An alarm goes as it stands in the word.
struct AlarmText {
  std::string text;
};
struct Closing {  ///< sent by the first of a node's `ranks` that closes
  std::uint64_t operations = 0;
  int rank = 0;
  std::size_t ranks = 0;
  std::vector<ControlChannel::Call> calls;  ///< its last ones, each of the number after the one before
};
struct Quiet {  ///< the last message of a node's `ranks`
  std::size_t ranks = 0;
};
struct Asking {
  ControlChannel::Question question;
  std::vector<ControlChannel::Call> calls;  ///< as of Closing
};
struct Inquiry {  ///< "whom do you wait for?"
  int rank = 0;   ///< who asks
};
struct Answer {
  int rank = 0;  ///< who answers
  ControlChannel::Standing standing;
};
using ControlMessage = std::variant<AlarmText, Closing, Quiet, Asking, Inquiry, Answer>;

std::string to_text(const ControlMessage& message);
ControlMessage message_from(const std::string& text);

}  // namespace lockstep
