// SPDX-License-Identifier: Apache-2.0
#include "platform/tcp/tcp.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <sstream>

namespace lockstep {
namespace {

/// Returns the text of an address that other hosts can reach; otherwise nothing. An IPv6 address of a link alone means
/// nothing without the interface, whose name the other host does not know.
std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET) bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  if (address->sa_family == AF_INET6) {
    const in6_addr& of = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&of)) bytes = &of;
  }
  if (bytes == nullptr || inet_ntop(address->sa_family, bytes, text.data(), text.size()) == nullptr) return {};
  return text.data();
}

Descriptor open_socket_at(int type, const SocketAddress& at, std::uint16_t& port) {
  const int family = at.storage.ss_family;
  Descriptor opened(socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int off = 0;
  if (opened.open() && family == AF_INET6) setsockopt(opened.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  SocketAddress own;
  own.length = sizeof own.storage;
  auto* const plain = reinterpret_cast<sockaddr*>(&own.storage);
  if (!opened.open() || bind(opened.get(), at.plain(), at.length) != 0 ||
      getsockname(opened.get(), plain, &own.length) != 0)
    return {};
  if (type == SOCK_STREAM && listen(opened.get(), SOMAXCONN) != 0) return {};
  port = ntohs(family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own.storage).sin6_port
                                  : reinterpret_cast<const sockaddr_in&>(own.storage).sin_port);
  return opened;
}

}  // namespace

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
  constexpr std::size_t most = 4;  // hosts with many containers have many addresses, of which the first are the host's
  std::vector<std::string> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {"127.0.0.1"};
  for (const int family : {AF_INET, AF_INET6}) {
    const std::size_t before = found.size();
    for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
      const bool is_up = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
      if (!is_up || at->ifa_addr == nullptr || at->ifa_addr->sa_family != family) continue;
      const std::string text = text_of(at->ifa_addr);
      if (!text.empty() && found.size() < before + most) found.push_back(text);
    }
  }
  freeifaddrs(list);
  if (found.empty()) found.emplace_back("127.0.0.1");
  return found;
}

SocketAddress socket_address(const std::string& host, std::uint16_t port, int family) {
  SocketAddress result;
  in_addr narrow{};
  in6_addr wide{};
  const bool is_narrow = inet_pton(AF_INET, host.c_str(), &narrow) == 1;
  const bool is_wide = !is_narrow && inet_pton(AF_INET6, host.c_str(), &wide) == 1;
  if (!host.empty() && !is_narrow && !is_wide) return result;
  if (family == AF_UNSPEC) family = is_narrow ? AF_INET : AF_INET6;
  if (family == AF_INET) {
    if (is_wide) return result;
    auto& in = reinterpret_cast<sockaddr_in&>(result.storage);
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    in.sin_addr = narrow;  // INADDR_ANY for no host
    result.length = sizeof in;
    return result;
  }
  if (is_narrow) {
    wide.s6_addr[10] = wide.s6_addr[11] = 0xff;
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&narrow), sizeof narrow, wide.s6_addr + 12);
  }
  auto& in = reinterpret_cast<sockaddr_in6&>(result.storage);
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(port);
  in.sin6_addr = wide;  // in6addr_any for no host
  result.length = sizeof in;
  return result;
}

Descriptor open_socket(int type, const std::string& host, std::uint16_t& port) {
  if (!host.empty()) return open_socket_at(type, socket_address(host, 0), port);
  Descriptor opened = open_socket_at(type, socket_address(host, 0, AF_INET6), port);
  return opened.open() ? std::move(opened) : open_socket_at(type, socket_address(host, 0, AF_INET), port);
}

int family_of(int socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &length);
  return storage.ss_family;
}

Descriptor begin_connection(int family, const sockaddr* address, socklen_t length) {
  Descriptor opened(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool is_begun = opened.open() && (connect(opened.get(), address, length) == 0 || errno == EINPROGRESS);
  return is_begun ? std::move(opened) : Descriptor();
}

Descriptor begin_connection(const std::string& host, std::uint16_t port) {
  const SocketAddress address = socket_address(host, port);
  if (address.length == 0) {
    errno = EINVAL;
    return {};
  }
  return begin_connection(address.storage.ss_family, address.plain(), address.length);
}

int milliseconds_until(std::chrono::steady_clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

}  // namespace lockstep
