// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <sstream>

#include "platform/node_memory/control_board.hpp"

namespace lockstep {
namespace {

// The first letter of a message is its type.
constexpr char closing_letter = 'C';
constexpr char quiet_letter = 'Q';
constexpr char question_letter = '?';
constexpr char inquiry_letter = 'W';
constexpr char answer_letter = 'A';
constexpr char alarm_letter = '!';

void write_calls(std::ostringstream& out, const std::vector<ControlChannel::Call>& calls) {
  out << ' ' << calls.size();
  if (!calls.empty()) out << ' ' << calls.front().number;
  for (const ControlChannel::Call& call : calls) out << ' ' << call.what << ' ' << call.hash;
}

std::vector<ControlChannel::Call> read_calls(std::istringstream& in) {
  std::size_t left = 0;
  ControlChannel::Call call;
  if (in >> left && left > 0) in >> call.number;
  std::vector<ControlChannel::Call> calls;
  for (; left > 0 && in >> call.what >> call.hash; --left, ++call.number) calls.push_back(call);
  return calls;
}

struct Writer {
  std::ostringstream& out;
  void operator()(const AlarmText& alarm) { out << alarm_letter << alarm.text; }
  void operator()(const Closing& m) {
    out << closing_letter << m.operations << ' ' << m.rank << ' ' << m.ranks;
    write_calls(out, m.calls);
  }
  void operator()(const Quiet& m) { out << quiet_letter << m.ranks; }
  void operator()(const Asking& m) {
    const ControlChannel::Call& call = m.question.call;
    out << question_letter << m.question.rank << ' ' << call.number << ' ' << call.what << ' ' << call.hash;
    write_calls(out, m.calls);
  }
  void operator()(const Inquiry& m) { out << inquiry_letter << m.rank; }
  void operator()(const Answer& m) {
    out << answer_letter << m.rank << ' ' << m.standing.is_busy;
    for (const int rank : m.standing.awaited) out << ' ' << rank;
  }
};

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
    message.calls = read_calls(in);
    return message;
  }
  if (letter == quiet_letter) {
    Quiet message;
    in >> message.ranks;
    return message;
  }
  if (letter == question_letter) {
    Asking message;
    ControlChannel::Call& call = message.question.call;
    in >> message.question.rank >> call.number >> call.what >> call.hash;
    message.calls = read_calls(in);
    return message;
  }
  if (letter == inquiry_letter) {
    Inquiry message;
    in >> message.rank;
    return message;
  }
  if (letter == answer_letter) {
    Answer message;
    in >> message.rank >> message.standing.is_busy;
    for (int rank = 0; in >> rank;) message.standing.awaited.push_back(rank);
    return message;
  }
  return AlarmText{text.substr(1)};
}

}  // namespace lockstep
