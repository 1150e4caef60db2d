// SPDX-License-Identifier: Apache-2.0
#include "platform/tcp/tcp.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <random>
#include <sstream>
#include <string_view>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

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

constexpr const char* own_variable = "LOCKSTEP_SOCKET_IFNAME";

/// Whether an IPv4 address lies in a subnet such as 10.0.0.0/24.
bool lies_in(const std::string& address, const std::string& subnet) {
  const std::size_t slash = subnet.find('/');
  const int bits = std::atoi(subnet.c_str() + slash + 1);
  in_addr one{};
  in_addr other{};
  if (bits < 0 || bits > 32 || inet_pton(AF_INET, address.c_str(), &one) != 1 ||
      inet_pton(AF_INET, subnet.substr(0, slash).c_str(), &other) != 1)
    return false;
  const std::uint32_t mask = bits == 0 ? 0 : ~std::uint32_t{0} << (32 - bits);
  return (ntohl(one.s_addr) & mask) == (ntohl(other.s_addr) & mask);
}

Descriptor open_socket_at(int type, const SocketAddress& at, bool is_given, std::uint16_t& port) {
  const int family = at.storage.ss_family;
  Descriptor opened(socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int off = 0;
  const int on = 1;
  // A server may start again while connections of its last run end. Of ports that the system chooses this would permit
  // a second use.
  if (opened.open() && type == SOCK_STREAM && is_given)
    setsockopt(opened.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
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

std::optional<std::string> job_secret() {
  const char* const word = std::getenv("LOCKSTEP_SECRET");
  const char* const file = std::getenv("LOCKSTEP_SECRET_FILE");
  if (word == nullptr && file == nullptr) return std::nullopt;
  std::string secret = word == nullptr ? "" : word;
  if (word == nullptr) {
    struct stat status {};
    if (stat(file, &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
      throw Error(ErrorCode::io, "LOCKSTEP_SECRET_FILE=" + echo(file) + ": others may read it; call chmod 600 for it");
    }
    secret = read_text(file);
    while (!secret.empty() && std::isspace(static_cast<unsigned char>(secret.back())) != 0) secret.pop_back();
  }
  constexpr std::size_t least = 16;
  if (secret.size() < least) {
    throw Error(ErrorCode::invalid_argument, "the secret of LOCKSTEP_SECRET or LOCKSTEP_SECRET_FILE has " +
                                                 std::to_string(secret.size()) + " characters, and needs 16 or more");
  }
  const auto is_space = [](unsigned char c) { return std::isspace(c) != 0; };
  std::replace_if(secret.begin(), secret.end(), is_space, '_');  // addresses and heartbeats have it between spaces
  return secret.substr(0, 32);
}

std::string secret_of(const TcpAddress& address) {
  if (address.secret != secret_of_job) return address.secret;
  try {
    return job_secret().value_or(address.secret);
  } catch (const Error&) {  // its file has gone since the start
    return address.secret;
  }
}

InterfaceChoice InterfaceChoice::from_environment() {
  const auto value_of = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  for (const char* const name : {own_variable, "NCCL_SOCKET_IFNAME"}) {
    const std::string value = value_of(name);
    const bool excludes = value.starts_with('^');
    if (!value.empty()) return {name, value.substr(excludes ? 1 : 0), excludes, false};
  }
  for (const bool excludes : {false, true}) {
    const char* const name = excludes ? "OMPI_MCA_btl_tcp_if_exclude" : "OMPI_MCA_btl_tcp_if_include";
    const std::string value = value_of(name);
    if (!value.empty()) return {name, value, excludes, true};
  }
  return {};
}

InterfaceChoice::InterfaceChoice(std::string variable, const std::string& words, bool excludes, bool subnets)
    : variable_(std::move(variable)),
      given_((excludes && !subnets ? "^" : "") + words),
      excludes_(excludes),
      subnets_(subnets),
      exact_(subnets || words.starts_with('=')) {
  std::istringstream in(words.starts_with('=') ? words.substr(1) : words);
  for (std::string word; std::getline(in, word, ',');)
    if (!word.empty()) words_.push_back(word);
}

bool InterfaceChoice::names(const std::string& interface, const std::string& address) const {
  return std::any_of(words_.begin(), words_.end(), [&](const std::string& word) {
    if (subnets_ && word.find('/') != std::string::npos) return lies_in(address, word);
    return exact_ ? interface == word : interface.starts_with(word);
  });
}

bool InterfaceChoice::allows(const std::string& interface, const std::string& address, bool is_loopback) const {
  if (is_made() && !excludes_) return names(interface, address);
  return !is_loopback && !names(interface, address);
}

OwnAddresses own_addresses(const InterfaceChoice& choice) {
  constexpr std::size_t most = 4;  // hosts with many containers have many addresses, of which the first are the host's
  OwnAddresses own{.are_chosen = choice.is_made()};
  std::string all;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {.hosts = {"127.0.0.1"}};
  for (const int family : {AF_INET, AF_INET6}) {
    const std::size_t before = own.hosts.size();
    for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
      if ((at->ifa_flags & IFF_UP) == 0 || at->ifa_addr == nullptr || at->ifa_addr->sa_family != family) continue;
      const std::string text = text_of(at->ifa_addr);
      if (text.empty()) continue;
      all += (all.empty() ? "" : ", ") + std::string(at->ifa_name) + " (" + text + ')';
      const bool is_wanted = choice.allows(at->ifa_name, text, (at->ifa_flags & IFF_LOOPBACK) != 0);
      if (is_wanted && own.hosts.size() < before + most) own.hosts.push_back(text);
    }
  }
  freeifaddrs(list);
  if (!own.hosts.empty()) return own;
  if (choice.variable() == own_variable) {
    throw Error(ErrorCode::invalid_argument,
                choice.text() + " leaves no network interface with an address; this host has " + all);
  }
  return choice.is_made() ? own_addresses(InterfaceChoice()) : OwnAddresses{.hosts = {"127.0.0.1"}};
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

std::vector<Descriptor> open_sockets(int type, const std::vector<std::string>& hosts, std::uint16_t& port) {
  std::vector<Descriptor> opened;
  const std::uint16_t given = port;
  if (hosts.empty()) {
    for (const int family : {AF_INET6, AF_INET}) {
      Descriptor any = open_socket_at(type, socket_address("", given, family), given != 0, port);
      if (any.open()) opened.push_back(std::move(any));
      if (!opened.empty()) break;
    }
    return opened;
  }
  const int tries = given == 0 ? 16 : 1;  // a port that is free at the first address may be taken at another one
  for (int i = 0; i < tries && opened.size() < hosts.size(); ++i) {
    opened.clear();
    for (const std::string& host : hosts) {
      Descriptor one = open_socket_at(type, socket_address(host, opened.empty() ? given : port), given != 0, port);
      if (!one.open()) break;
      opened.push_back(std::move(one));
    }
  }
  if (opened.size() < hosts.size()) opened.clear();
  return opened;
}

int family_of(int socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &length);
  return storage.ss_family;
}

std::string host_of_peer(int connection) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  const std::string host = text_of(reinterpret_cast<const sockaddr*>(&storage));
  constexpr std::string_view mapped = "::ffff:";  // an IPv4 address that an IPv6 socket sees
  const bool is_mapped = host.starts_with(mapped) && host.find('.') != std::string::npos;
  return is_mapped ? host.substr(mapped.size()) : host;
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
