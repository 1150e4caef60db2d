// SPDX-License-Identifier: Apache-2.0
#include "platform/watchdog/side_channel.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <string_view>
#include <utility>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view unix_name = "lockstep-watchdog.";
constexpr milliseconds longest_question{200};
constexpr std::size_t longest_answer = std::size_t{4} << 20;

struct Address {
  std::string secret;
  std::uint16_t tcp = 0;
  std::uint16_t udp = 0;
  std::vector<std::string> hosts;
};

/// "secret tcp-port udp-port address…"
std::string to_text(const Address& address) {
  std::string text = address.secret + ' ' + std::to_string(address.tcp) + ' ' + std::to_string(address.udp);
  for (const std::string& host : address.hosts) text += ' ' + host;
  return text;
}

Address address_from(const std::string& text) {
  Address address;
  std::istringstream in(text);
  in >> address.secret >> address.tcp >> address.udp;
  for (std::string host; in >> host;) address.hosts.push_back(host);
  return address;
}

sockaddr_in socket_address(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) address.sin_addr.s_addr = htonl(INADDR_ANY);
  return address;
}

/// Opens a socket on any port. @param port  set to the port
Descriptor open_socket(int type, std::uint16_t& port) {
  Descriptor opened(socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address = socket_address("0.0.0.0", 0);
  socklen_t length = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (!opened.open() || bind(opened.get(), plain, length) != 0 || getsockname(opened.get(), plain, &length) != 0)
    return {};
  if (type == SOCK_STREAM && listen(opened.get(), SOMAXCONN) != 0) return {};
  port = ntohs(address.sin_port);
  return opened;
}

/// The name has no file: it ends with its process.
std::pair<sockaddr_un, socklen_t> unix_address(int process) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = std::string(unix_name) + std::to_string(process);
  std::memcpy(address.sun_path + 1, text.data(), text.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size())};
}

Descriptor open_unix_socket() {
  Descriptor opened(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto [address, length] = unix_address(getpid());
  const auto* const plain = reinterpret_cast<const sockaddr*>(&address);
  if (!opened.open() || bind(opened.get(), plain, length) != 0 || listen(opened.get(), SOMAXCONN) != 0) return {};
  return opened;
}

bool is_of_this_user(int connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

int milliseconds_until(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
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

/// Reads up to the end of the line, or of the connection.
std::optional<std::string> receive_until(int connection, bool whole, Clock::time_point end) {
  std::string text;
  while (whole || text.empty() || text.back() != '\n') {
    std::array<char, 4096> bytes{};
    const ssize_t received = recv(connection, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received == 0) return whole ? std::optional(text) : std::nullopt;
    if (received > 0) {
      text.append(bytes.data(), static_cast<std::size_t>(received));
      if (text.size() > longest_answer) return std::nullopt;
    } else if ((errno != EAGAIN && errno != EINTR) || !wait_for(connection, POLLIN, end)) {
      return std::nullopt;
    }
  }
  text.pop_back();
  return text;
}

/// A question under way to one process, by one of its addresses.
struct Attempt {
  std::size_t whom = 0;
  Descriptor connection;
  bool is_asked = false;
  std::string answer;
};

/// @return whether the attempt has ended
bool advance(Attempt& attempt, const std::string& question, std::optional<std::string>& answer, Clock::time_point end) {
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

}  // namespace

std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {"127.0.0.1"};
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    const bool is_up = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_up || at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
    if (inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size()) != nullptr) found.emplace_back(text.data());
  }
  freeifaddrs(list);
  constexpr std::size_t most = 4;  // hosts with many containers have many addresses, of which the first are the host's
  if (found.size() > most) found.resize(most);
  if (found.empty()) found.emplace_back("127.0.0.1");
  return found;
}

SideChannel::SideChannel() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  Address address;
  std::random_device random;
  std::ostringstream secret;
  secret << std::hex << random() << random();
  address.secret = secret_ = secret.str();
  tcp_ = open_socket(SOCK_STREAM, address.tcp);
  udp_ = open_socket(SOCK_DGRAM, address.udp);
  unix_ = open_unix_socket();
  address.hosts = own_addresses();
  if (tcp_.open()) address_ = to_text(address);
}

void SideChannel::wake() const {
  const std::uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

void SideChannel::serve(milliseconds time, const std::function<std::string(const std::string&, bool)>& answer) {
  const Clock::time_point end = Clock::now() + time;
  do {
    std::array<pollfd, 4> entries = {pollfd{wake_.get(), POLLIN, 0}, pollfd{tcp_.get(), POLLIN, 0},
                                     pollfd{unix_.get(), POLLIN, 0}, pollfd{udp_.get(), POLLIN, 0}};
    if (poll(entries.data(), entries.size(), milliseconds_until(end)) <= 0) continue;
    if (entries[0].revents != 0) {
      std::uint64_t count = 0;
      (void)!read(wake_.get(), &count, sizeof count);
      return;
    }
    if (entries[3].revents != 0) receive_heartbeats();
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
      if (entries[i].revents == 0) continue;
      const Descriptor connection(accept4(entries[i].fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      const bool is_local = i == 2;
      if (!connection.open() || (is_local && !is_of_this_user(connection.get()))) continue;
      const auto question = receive_until(connection.get(), false, Clock::now() + longest_question);
      if (!question) continue;
      const std::size_t space = question->find(' ');
      if (!is_local && question->substr(0, space) != secret_) continue;
      const std::string plain = is_local ? *question : question->substr(std::min(space, question->size() - 1) + 1);
      (void)send_all(connection.get(), answer(plain, is_local), Clock::now() + longest_question);
    }
  } while (Clock::now() < end);
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
  const Address address = address_from(to);
  const std::string datagram = address.secret + ' ' + text;
  for (const std::string& host : address.hosts) {
    const sockaddr_in place = socket_address(host, address.udp);
    (void)sendto(udp_.get(), datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&place), sizeof place);
  }
}

std::vector<std::optional<std::string>> ask_all(const std::vector<std::string>& addresses, const std::string& question,
                                                milliseconds time) {
  std::vector<std::optional<std::string>> answers(addresses.size());
  std::vector<std::string> questions(addresses.size());
  std::vector<Attempt> attempts;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i].empty()) continue;
    const Address address = address_from(addresses[i]);
    questions[i] = address.secret + ' ' + question + '\n';
    for (const std::string& host : address.hosts) {
      Attempt attempt{i, Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), false, {}};
      const sockaddr_in place = socket_address(host, address.tcp);
      if (!attempt.connection.open()) continue;
      const int connected = connect(attempt.connection.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place);
      if (connected == 0 || errno == EINPROGRESS) attempts.push_back(std::move(attempt));
    }
  }
  const Clock::time_point end = Clock::now() + time;
  while (!attempts.empty() && Clock::now() < end) {
    std::vector<pollfd> entries;
    for (const Attempt& attempt : attempts)
      entries.push_back({attempt.connection.get(), static_cast<short>(attempt.is_asked ? POLLIN : POLLOUT), 0});
    if (poll(entries.data(), entries.size(), milliseconds_until(end)) <= 0) continue;
    for (std::size_t i = attempts.size(); i-- > 0;) {
      Attempt& attempt = attempts[i];
      const bool is_over =
          entries[i].revents != 0 && advance(attempt, questions[attempt.whom], answers[attempt.whom], end);
      if (is_over) attempts.erase(attempts.begin() + static_cast<std::ptrdiff_t>(i));
    }
    std::erase_if(attempts, [&](const Attempt& attempt) { return answers[attempt.whom].has_value(); });
  }
  return answers;
}

std::vector<int> processes_with_side_channel() {
  std::vector<int> processes;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const std::size_t at = line.find(std::string("@") += unix_name);
    if (at == std::string::npos) continue;
    int process = 0;
    const char* const digits = line.data() + at + 1 + unix_name.size();
    if (std::from_chars(digits, line.data() + line.size(), process).ec == std::errc()) processes.push_back(process);
  }
  std::sort(processes.begin(), processes.end());
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  return processes;
}

std::optional<std::string> ask_process(int process, const std::string& question, milliseconds time) {
  const Clock::time_point end = Clock::now() + time;
  const Descriptor connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto [address, length] = unix_address(process);
  if (!connection.open() || connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
    return {};
  if (!send_all(connection.get(), question + '\n', end)) return {};
  return receive_until(connection.get(), true, end);
}

}  // namespace lockstep
