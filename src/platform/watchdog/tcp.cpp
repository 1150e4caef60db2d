// SPDX-License-Identifier: Apache-2.0
#include "platform/watchdog/tcp.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <sstream>

namespace lockstep {

std::string to_text(const TcpAddress& address) {
  std::string text = address.secret + ' ' + std::to_string(address.tcp) + ' ' + std::to_string(address.udp);
  for (const std::string& host : address.hosts) text += ' ' + host;
  return text;
}

TcpAddress tcp_address_from(const std::string& text) {
  TcpAddress address;
  std::istringstream in(text);
  in >> address.secret >> address.tcp >> address.udp;
  for (std::string host; in >> host;) address.hosts.push_back(host);
  return address;
}

std::string random_word() {
  std::random_device random;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string word(32, '0');
  for (char& c : word) c = digits[random() % digits.size()];
  return word;
}

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

sockaddr_in socket_address(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) address.sin_addr.s_addr = htonl(INADDR_ANY);
  return address;
}

Descriptor open_socket(int type, const std::string& host, std::uint16_t& port) {
  Descriptor opened(socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address = socket_address(host, 0);
  socklen_t length = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (!opened.open() || bind(opened.get(), plain, length) != 0 || getsockname(opened.get(), plain, &length) != 0)
    return {};
  if (type == SOCK_STREAM && listen(opened.get(), SOMAXCONN) != 0) return {};
  port = ntohs(address.sin_port);
  return opened;
}

Descriptor begin_connection(int family, const sockaddr* address, socklen_t length) {
  Descriptor opened(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool is_begun = opened.open() && (connect(opened.get(), address, length) == 0 || errno == EINPROGRESS);
  return is_begun ? std::move(opened) : Descriptor();
}

Descriptor begin_connection(const std::string& host, std::uint16_t port) {
  const sockaddr_in address = socket_address(host, port);
  return begin_connection(AF_INET, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

int milliseconds_until(std::chrono::steady_clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

}  // namespace lockstep
