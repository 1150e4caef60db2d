// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <sstream>

#include "platform/mpi/wait_monitor.hpp"

namespace lockstep {
namespace {

constexpr char message_separator = '\0';

}  // namespace

std::string to_text(const WaitMessage& message) {
  std::ostringstream text;
  text << static_cast<char>(message.kind) << message.group << ' ' << message.wait << message_separator << message.host
       << message_separator << message.text;
  return text.str();
}

std::optional<WaitMessage> wait_message_from(const std::string& text) {
  const std::size_t first = text.find(message_separator);
  const std::size_t second = first == std::string::npos ? first : text.find(message_separator, first + 1);
  if (second == std::string::npos || std::string("QAGV").find(text.front()) == std::string::npos) return std::nullopt;
  WaitMessage message{.kind = static_cast<MessageKind>(text.front()),
                      .host = text.substr(first + 1, second - first - 1),
                      .text = text.substr(second + 1)};
  std::istringstream(text.substr(1, first - 1)) >> message.group >> message.wait;
  return message;
}

}  // namespace lockstep
