// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include "platform/node_memory/control_board.hpp"

namespace lockstep {
namespace {

constexpr char alarm_letter = '!';

void write(std::ostream& out, const ControlChannel::Call& call) {
  out << ' ' << call.number << ' ' << call.what << ' ' << call.hash;
}
void read(std::istream& in, ControlChannel::Call& call) { in >> call.number >> call.what >> call.hash; }
template <typename Field>
void write(std::ostream& out, const Field& field) {
  out << ' ' << field;
}
template <typename Field>
void read(std::istream& in, Field& field) {
  in >> field;
}
template <typename Item>
void write(std::ostream& out, const std::vector<Item>& items) {
  write(out, items.size());
  for (const Item& item : items) write(out, item);
}
template <typename Item>
void read(std::istream& in, std::vector<Item>& items) {
  std::size_t left = 0;
  in >> left;
  for (Item item{}; left > 0; --left) {
    read(in, item);
    if (!in) return;
    items.push_back(item);
  }
}

/// Reads a message if its letter is that of this type.
template <typename Message>
bool read_message(char letter, std::istream& in, ControlMessage& message) {
  if (letter != Message::letter) return false;
  Message found;
  std::apply([&in](auto&... fields) { (read(in, fields), ...); }, found.fields());
  message = std::move(found);
  return true;
}

template <typename... Messages>
ControlMessage message_of_any(const std::string& text, std::variant<AlarmText, Messages...>* /*types*/) {
  ControlMessage message = AlarmText{text.substr(1)};
  std::istringstream in(text.substr(1));
  (void)(read_message<Messages>(text.front(), in, message) || ...);
  return message;
}

}  // namespace

std::string to_text(const Alarm& alarm) {
  constexpr std::size_t most_peers = 8;  // a reason that does not fit is cut
  const std::size_t peers = std::min(alarm.peers.size(), most_peers);
  std::ostringstream text;
  text << static_cast<int>(alarm.code) << ' ' << alarm.rank << ' ' << peers;
  for (std::size_t i = 0; i < peers; ++i) text << ' ' << alarm.peers[i];
  text << ' ' << alarm.host << '\t' << alarm.reason;
  return text.str();
}

Alarm alarm_from(const std::string& text) {
  Alarm alarm;
  int code = 0;
  std::size_t peers = 0;
  std::istringstream in(text);
  if (!(in >> code >> alarm.rank >> peers)) return {.reason = text};  // raise() has not written this
  for (int peer = 0; peers > 0 && in >> peer; --peers) alarm.peers.push_back(peer);
  in.ignore();
  std::getline(in, alarm.host, '\t');
  alarm.reason.assign(std::istreambuf_iterator<char>(in), {});
  alarm.code = static_cast<ErrorCode>(code);
  return alarm;
}

std::string to_text(const ControlMessage& message) {
  std::ostringstream out;
  std::visit(
      [&out](auto one) {
        if constexpr (std::is_same_v<decltype(one), AlarmText>) {
          out << alarm_letter << one.text;
        } else {
          out << decltype(one)::letter;
          std::apply([&out](const auto&... fields) { (write(out, fields), ...); }, one.fields());
        }
      },
      message);
  return out.str();
}

ControlMessage message_from(const std::string& text) {
  return message_of_any(text, static_cast<ControlMessage*>(nullptr));
}

}  // namespace lockstep
