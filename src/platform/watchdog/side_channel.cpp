// SPDX-License-Identifier: Apache-2.0
#include "platform/watchdog/side_channel.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <thread>

#include "platform/machine/launch.hpp"
#include "platform/node_memory/descriptor_passing.hpp"
#include "platform/watchdog/tcp.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view unix_name = "lockstep-watchdog.";
constexpr std::size_t longest_question = 256;  // in bytes
constexpr std::size_t longest_answer = std::size_t{4} << 20;
constexpr milliseconds time_to_ask{2000};
constexpr milliseconds time_to_take_an_answer{200};
constexpr std::size_t most_askers = 256;

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
  bool is_asked = false;
  std::string answer;
};

/// @return whether the attempt has ended
bool advance(AskAttempt& attempt, const std::string& question, std::optional<std::string>& answer,
             Clock::time_point end) {
  if (!attempt.is_asked) {
    attempt.is_asked = true;
    return !send_all(attempt.connection.get(), question, end);  // fails here if it was not connected
  }
  std::array<char, 65536> bytes{};
  const ssize_t received = recv(attempt.connection.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (received < 0) return errno != EAGAIN && errno != EINTR;
  attempt.answer.append(bytes.data(), static_cast<std::size_t>(received));
  if (received > 0) return attempt.answer.size() > longest_answer;
  if (!attempt.answer.empty() && !answer) answer = std::move(attempt.answer);
  return true;
}

/// Asks by all attempts at once. @param questions  by `AskAttempt::whom` @return the answers that came in time
std::vector<std::optional<std::string>> ask(std::vector<AskAttempt> attempts, const std::vector<std::string>& questions,
                                            Clock::time_point end) {
  std::vector<std::optional<std::string>> answers(questions.size());
  while (!attempts.empty() && Clock::now() < end) {
    std::vector<pollfd> entries;
    for (const AskAttempt& attempt : attempts)
      entries.push_back({attempt.connection.get(), static_cast<short>(attempt.is_asked ? POLLIN : POLLOUT), 0});
    if (poll(entries.data(), entries.size(), milliseconds_until(end)) <= 0) continue;
    for (std::size_t i = attempts.size(); i-- > 0;) {
      AskAttempt& attempt = attempts[i];
      const bool is_over =
          entries[i].revents != 0 && advance(attempt, questions[attempt.whom], answers[attempt.whom], end);
      if (is_over) attempts.erase(attempts.begin() + static_cast<std::ptrdiff_t>(i));
    }
    std::erase_if(attempts, [&](const AskAttempt& attempt) { return answers[attempt.whom].has_value(); });
  }
  return answers;
}

}  // namespace

SideChannel::SideChannel() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), secret_(random_word()) {
  TcpAddress address{.secret = secret_};
  const bool is_local = all_on_this_host(read_environment());
  const std::string host = is_local ? "127.0.0.1" : "0.0.0.0";
  tcp_ = open_socket(SOCK_STREAM, host, address.tcp);
  udp_ = open_socket(SOCK_DGRAM, host, address.udp);
  unix_ = open_unix_socket();
  address.hosts = is_local ? std::vector{host} : own_addresses();
  if (tcp_.open()) address_ = to_text(address);
}

void SideChannel::wake() const {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void SideChannel::serve(milliseconds time, const Answer& answer) {
  const Clock::time_point end = Clock::now() + time;
  std::vector<pollfd> entries;
  do {
    entries = {pollfd{wake_.get(), POLLIN, 0}, pollfd{udp_.get(), POLLIN, 0}, pollfd{tcp_.get(), POLLIN, 0},
               pollfd{unix_.get(), POLLIN, 0}};
    Clock::time_point until = end;
    for (const Asker& asker : askers_) {
      entries.push_back({asker.connection.get(), POLLIN, 0});
      until = std::min(until, asker.end);
    }
    if (poll(entries.data(), entries.size(), milliseconds_until(until)) < 0) continue;
    if (entries[0].revents != 0) {
      std::uint64_t count = 0;
      (void)!::read(wake_.get(), &count, sizeof count);
      return;
    }
    if (entries[1].revents != 0) receive_heartbeats();
    hear_askers(answer);
    for (const bool is_local : {false, true})
      if (entries[is_local ? 3 : 2].revents != 0) accept_some(is_local, answer);
  } while (Clock::now() < end);
}

void SideChannel::hear_askers(const Answer& answer) {
  std::erase_if(askers_, [&](Asker& asker) { return has_ended(asker, answer); });
}

/// Accepts connections, also of strangers, so that theirs do not fill the queue. One who knows the secret asks at once,
/// so if many connections are silent, the oldest are closed.
void SideChannel::accept_some(bool is_local, const Answer& answer) {
  constexpr std::size_t at_a_time = 64;
  if (askers_.size() >= most_askers) {
    hear_askers(answer);
    const std::size_t too_many = std::min(askers_.size(), at_a_time);
    askers_.erase(askers_.begin(), askers_.begin() + static_cast<std::ptrdiff_t>(too_many));
  }
  for (std::size_t accepted = 0; accepted < at_a_time; ++accepted) {
    const int listener = (is_local ? unix_ : tcp_).get();
    Descriptor connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.open()) {
      if (errno != EMFILE && errno != ENFILE) return;
      askers_.clear();  // the listener stays ready, so this would be tried again at once
      std::this_thread::sleep_for(milliseconds(1));
      return;
    }
    if (is_local && !is_of_this_user(connection.get())) continue;
    askers_.push_back({std::move(connection), is_local, Clock::now() + time_to_ask, {}});
  }
}

/// Hears what an asker has said so far, and answers its question. @return whether the connection is done with
bool SideChannel::has_ended(Asker& asker, const Answer& answer) const {
  std::array<char, longest_question> bytes{};
  const ssize_t received = recv(asker.connection.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (received < 0) return (errno != EAGAIN && errno != EINTR) || Clock::now() > asker.end;
  asker.text.append(bytes.data(), static_cast<std::size_t>(received));
  const std::size_t length = asker.text.find('\n');
  if (length == std::string::npos) return received == 0 || asker.text.size() >= longest_question;
  std::string question = asker.text.substr(0, length);
  if (!asker.is_local) {
    if (!question.starts_with(secret_ + ' ')) return true;
    question.erase(0, secret_.size() + 1);
  }
  (void)send_all(asker.connection.get(), answer(question, asker.is_local), Clock::now() + time_to_take_an_answer);
  return true;
}

void SideChannel::receive_heartbeats() {
  std::array<char, 4096> bytes{};
  for (;;) {
    const ssize_t received = recv(udp_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received <= 0) return;
    const std::string text(bytes.data(), static_cast<std::size_t>(received));
    const std::size_t space = std::min(text.find(' '), text.size());
    if (text.substr(0, space) != secret_ || space == text.size()) continue;
    const std::string content = text.substr(space + 1);
    heartbeats_[content.substr(0, content.find(' '))] = {content, Clock::now()};
  }
}

void SideChannel::send_heartbeat(const std::string& to, const std::string& text) const {
  const TcpAddress address = tcp_address_from(to);
  const std::string datagram = address.secret + ' ' + text;
  for (const std::string& host : address.hosts) {
    const sockaddr_in place = socket_address(host, address.udp);
    (void)sendto(udp_.get(), datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&place), sizeof place);
  }
}

std::vector<std::optional<std::string>> ask_all(const std::vector<std::string>& addresses, const std::string& question,
                                                milliseconds time) {
  std::vector<std::string> questions(addresses.size());
  std::vector<AskAttempt> attempts;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i].empty()) continue;
    const TcpAddress address = tcp_address_from(addresses[i]);
    questions[i] = address.secret + ' ' + question + '\n';
    for (const std::string& host : address.hosts) {
      attempts.push_back({i, begin_connection(host, address.tcp), false, {}});
    }
  }
  std::erase_if(attempts, [](const AskAttempt& attempt) { return !attempt.connection.open(); });
  return ask(std::move(attempts), questions, Clock::now() + time);
}

std::vector<LocalAnswer> ask_this_host(const std::string& question, milliseconds time) {
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
    attempts.push_back({processes.size(), std::move(connection), false, {}});
    processes.push_back(process);
  }
  const auto answers = ask(std::move(attempts), std::vector(processes.size(), question + '\n'), end);
  std::vector<LocalAnswer> found;
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (answers[i]) found.push_back({processes[i], *answers[i]});
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.process < b.process; });
  return found;
}

}  // namespace lockstep
