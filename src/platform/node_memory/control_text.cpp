// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/control_text.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <sstream>

namespace lockstep {
namespace {

// The first letter of a message says what it is.
constexpr char closing_letter = 'C';
constexpr char quiet_letter = 'Q';
constexpr char question_letter = '?';
constexpr char alarm_letter = '!';

struct Writer {
  std::ostringstream& out;
  void operator()(const AlarmText& alarm) { out << alarm_letter << alarm.text; }
  void operator()(const Closing& m) { out << closing_letter << m.operations << ' ' << m.rank << ' ' << m.ranks; }
  void operator()(const Quiet& m) { out << quiet_letter << m.ranks; }
  void operator()(const ControlChannel::Question& m) {
    out << question_letter << m.rank << ' ' << m.call.number << ' ' << m.call.what << ' ' << m.call.hash;
  }
};

}  // namespace

std::string to_text(const Alarm& alarm) {
  constexpr std::size_t most_peers = 8;  // the reason is cut where it does not fit
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
  if (!(in >> code >> alarm.rank >> peers)) return {.reason = text};  // of a word that nobody raised on purpose
  for (int peer = 0; peers > 0 && in >> peer; --peers) alarm.peers.push_back(peer);
  in.ignore();
  std::getline(in, alarm.host, '\t');
  alarm.reason.assign(std::istreambuf_iterator<char>(in), {});
  alarm.code = static_cast<ErrorCode>(code);
  return alarm;
}

std::string to_text(const ControlMessage& message) {
  std::ostringstream text;
  std::visit(Writer{text}, message);
  return text.str();
}

ControlMessage message_from(const std::string& text) {
  std::istringstream in(text);
  const int letter = in.get();
  if (letter == closing_letter) {
    Closing message;
    in >> message.operations >> message.rank >> message.ranks;
    return message;
  }
  if (letter == quiet_letter) {
    Quiet message;
    in >> message.ranks;
    return message;
  }
  if (letter == question_letter) {
    ControlChannel::Question message;
    in >> message.rank >> message.call.number >> message.call.what >> message.call.hash;
    return message;
  }
  return AlarmText{text.substr(1)};
}

}  // namespace lockstep
