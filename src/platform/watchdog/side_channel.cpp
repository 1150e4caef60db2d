// SPDX-License-Identifier: Apache-2.0
#include "platform/watchdog/side_channel.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>

#include "platform/machine/launch.hpp"
#include "platform/node_memory/descriptor_passing.hpp"
#include "platform/tcp/tcp.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view unix_name = "lockstep-watchdog.";
constexpr std::size_t longest_answer = std::size_t{4} << 20;  // in bytes
constexpr milliseconds time_to_take_an_answer{200};

/// The name has no file: it ends with its process. Nobody else can take it before, because it has a random word.
Descriptor open_unix_socket() {
  Descriptor opened(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const std::string name = std::string(unix_name) + std::to_string(getpid()) + '.' + random_word();
  const auto [address, length] = unix_address(name);
  const auto* const plain = reinterpret_cast<const sockaddr*>(&address);
  if (!opened.open() || bind(opened.get(), plain, length) != 0 || listen(opened.get(), SOMAXCONN) != 0) return {};
  return opened;
}

/// @return whether the descriptor was ready before the end
bool wait_for(int descriptor, short events, Clock::time_point end) {
  pollfd entry{descriptor, events, 0};
  int ready = 0;
  do ready = poll(&entry, 1, milliseconds_until(end));
  while (ready < 0 && errno == EINTR);
  return ready > 0;
}

bool send_all(int connection, std::string_view text, Clock::time_point end) {
  while (!text.empty()) {
    const ssize_t sent = send(connection, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      text.remove_prefix(static_cast<std::size_t>(sent));
    } else if ((errno != EAGAIN && errno != EINTR) || !wait_for(connection, POLLOUT, end)) {
      return false;
    }
  }
  return true;
}

/// A question under way to one process, by one of its addresses.
struct AskAttempt {
  std::size_t whom = 0;
  Descriptor connection;
  Greeting question;
  bool is_asked = false;
  std::string answer;
};

/// @return whether the attempt has ended
bool advance(AskAttempt& attempt, std::optional<std::string>& answer) {
  if (!attempt.is_asked) {
    attempt.is_asked = true;
    return !send_greeting(attempt.connection.get(), attempt.question);  // fails here if it was not connected
  }
  std::array<char, 65536> bytes{};
  const ssize_t received = recv(attempt.connection.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (received < 0) return errno != EAGAIN && errno != EINTR;
  attempt.answer.append(bytes.data(), static_cast<std::size_t>(received));
  if (received > 0) return attempt.answer.size() > longest_answer;
  if (!attempt.answer.empty() && !answer) answer = std::move(attempt.answer);
  return true;
}

/// Asks by all attempts at once. @return the answers that came in time, by `AskAttempt::whom`
std::vector<std::optional<std::string>> ask(std::vector<AskAttempt> attempts, std::size_t processes,
                                            Clock::time_point end) {
  std::vector<std::optional<std::string>> answers(processes);
  while (!attempts.empty() && Clock::now() < end) {
    std::vector<pollfd> entries;
    for (const AskAttempt& attempt : attempts)
      entries.push_back({attempt.connection.get(), static_cast<short>(attempt.is_asked ? POLLIN : POLLOUT), 0});
    if (poll(entries.data(), entries.size(), milliseconds_until(end)) <= 0) continue;
    for (std::size_t i = attempts.size(); i-- > 0;) {
      AskAttempt& attempt = attempts[i];
      if (entries[i].revents != 0 && advance(attempt, answers[attempt.whom]))
        attempts.erase(attempts.begin() + static_cast<std::ptrdiff_t>(i));
    }
    std::erase_if(attempts, [&](const AskAttempt& attempt) { return answers[attempt.whom].has_value(); });
  }
  return answers;
}

}  // namespace

SideChannel::SideChannel(bool is_local)
    : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      secret_(job_secret().value_or(random_word())),
      askers_(secret_),
      local_askers_("") {
  TcpAddress address{.secret = job_secret() ? std::string(secret_of_job) : secret_};
  const OwnAddresses own = is_local ? OwnAddresses{{"127.0.0.1"}, true} : own_addresses();
  const std::vector<std::string> listens = own.are_chosen ? own.hosts : std::vector<std::string>();
  for (Descriptor& one : open_sockets(SOCK_STREAM, listens, address.tcp)) tcp_.emplace_back(std::move(one));
  for (Descriptor& one : open_sockets(SOCK_DGRAM, listens, address.udp)) udp_.emplace_back(std::move(one));
  unix_ = ConnectedSocket(open_unix_socket());
  address.hosts = own.hosts;
  if (!tcp_.empty()) address_ = to_text(address);
}

void SideChannel::wake() const {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void SideChannel::serve(milliseconds time, const Answer& answer) {
  const Clock::time_point end = Clock::now() + time;
  std::vector<pollfd> entries;
  do {
    entries = {pollfd{wake_.get(), POLLIN, 0}, pollfd{unix_.get(), POLLIN, 0}};
    for (const auto* const sockets : {&tcp_, &udp_})
      for (const ConnectedSocket& socket : *sockets) entries.push_back({socket.get(), POLLIN, 0});
    askers_.add_to(entries);
    local_askers_.add_to(entries);
    const Clock::time_point until = std::min({end, askers_.next_end(), local_askers_.next_end()});
    if (poll(entries.data(), entries.size(), milliseconds_until(until)) < 0) continue;
    if (entries[0].revents != 0) {
      std::uint64_t count = 0;
      (void)!::read(wake_.get(), &count, sizeof count);
      return;
    }
    if (entries[1].revents != 0) local_askers_.accept_from(unix_.get());
    std::size_t next = 2;
    for (const ConnectedSocket& socket : tcp_)
      if (entries[next++].revents != 0) askers_.accept_from(socket.get());
    for (const ConnectedSocket& socket : udp_)
      if (entries[next++].revents != 0) receive_heartbeats(socket.get());
    answer_those_who_ask(answer);
  } while (Clock::now() < end);
}

void SideChannel::answer_those_who_ask(const Answer& answer) {
  const auto reply = [&](Arrival& asker, bool is_local) {
    const std::string text = answer(asker.greeting().purpose, is_local);
    (void)send_all(asker.socket(), text, Clock::now() + time_to_take_an_answer);
  };
  for (Arrival& asker : askers_.those_who_know()) reply(asker, false);
  for (Arrival& asker : local_askers_.those_who_know())
    if (is_of_this_user(asker.socket())) reply(asker, true);
}

void SideChannel::receive_heartbeats(int socket) {
  std::array<char, 4096> bytes{};
  for (;;) {
    const ssize_t received = recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received <= 0) return;
    const std::string text(bytes.data(), static_cast<std::size_t>(received));
    const std::size_t space = std::min(text.find(' '), text.size());
    if (!is_same_secret(std::string_view(text).substr(0, space), secret_) || space == text.size()) continue;
    const std::string content = text.substr(space + 1);
    heartbeats_[content.substr(0, content.find(' '))] = {content, Clock::now()};
  }
}

void SideChannel::send_heartbeat(const std::string& to, const std::string& text) const {
  const TcpAddress address = tcp_address_from(to);
  const std::string datagram = secret_of(address) + ' ' + text;
  for (const std::string& host : address.hosts)
    for (const ConnectedSocket& socket : udp_) {
      const SocketAddress place = socket_address(host, address.udp, family_of(socket.get()));
      if (place.length == 0) continue;  // of the other family
      (void)sendto(socket.get(), datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_NOSIGNAL, place.plain(),
                   place.length);
    }
}

std::vector<std::optional<std::string>> ask_all(const std::vector<std::string>& addresses, Purpose question,
                                                milliseconds time) {
  std::vector<AskAttempt> attempts;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i].empty()) continue;
    const TcpAddress address = tcp_address_from(addresses[i]);
    for (const std::string& host : address.hosts)
      attempts.push_back({i, begin_connection(host, address.tcp), greeting_to(secret_of(address), question)});
  }
  std::erase_if(attempts, [](const AskAttempt& attempt) { return !attempt.connection.open(); });
  return ask(std::move(attempts), addresses.size(), Clock::now() + time);
}

std::vector<LocalAnswer> ask_this_host(Purpose question, milliseconds time) {
  const Clock::time_point end = Clock::now() + time;
  std::vector<int> processes;
  std::vector<AskAttempt> attempts;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line) && Clock::now() < end;) {
    const std::size_t at = line.find(std::string("@") += unix_name);
    if (at == std::string::npos) continue;
    const std::string_view name = std::string_view(line).substr(at + 1);
    int process = 0;
    const char* const digits = name.data() + unix_name.size();
    if (std::from_chars(digits, name.data() + name.size(), process).ec != std::errc()) continue;
    const auto [address, length] = unix_address(name);
    Descriptor connection = begin_connection(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), length);
    if (!connection.open() || !is_of_this_user(connection.get())) continue;
    attempts.push_back({processes.size(), std::move(connection), greeting_to("", question)});
    processes.push_back(process);
  }
  const auto answers = ask(std::move(attempts), processes.size(), end);
  std::vector<LocalAnswer> found;
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (answers[i]) found.push_back({processes[i], *answers[i]});
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.process < b.process; });
  return found;
}

}  // namespace lockstep
