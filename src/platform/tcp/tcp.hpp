// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/text_file.hpp"

namespace lockstep {

/// Where other processes reach this one, and the secret word by which they prove that they belong to the job.
struct TcpAddress {
  std::string secret;
  std::uint16_t tcp = 0;  ///< port; 0: none
  std::uint16_t udp = 0;
  std::vector<std::string> hosts;  ///< IPv4 and IPv6 addresses
};
/// One line of text: "secret tcp-port udp-port address…".
std::string to_text(const TcpAddress& address);
TcpAddress tcp_address_from(const std::string& text);

/// A secret of 32 hexadecimal digits.
std::string random_word();

/// The first few addresses of this host that other hosts can reach, IPv4 before IPv6; that of the loopback if there are
/// no others.
std::vector<std::string> own_addresses();

/// A socket's address of either family.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;  ///< 0: the text was no address

  [[nodiscard]] const sockaddr* plain() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
/// @param host    an IPv4 or IPv6 address, or empty for all addresses of this host
/// @param family  AF_INET or AF_INET6, in which an IPv4 address is mapped; AF_UNSPEC: that of `host`
SocketAddress socket_address(const std::string& host, std::uint16_t port, int family = AF_UNSPEC);

/// Opens a nonblocking socket on any port; one of SOCK_STREAM listens. @param host  whose address it gets, or empty:
/// all addresses of this host, of both families where the system has IPv6
/// @param port  set to the port @return a closed one on failure, with errno set
Descriptor open_socket(int type, const std::string& host, std::uint16_t& port);

/// The family of a socket. @pre it is open
int family_of(int socket);

/// Begins to connect without waiting. @return a closed descriptor if that fails at once, with errno set
Descriptor begin_connection(int family, const sockaddr* address, socklen_t length);
Descriptor begin_connection(const std::string& host, std::uint16_t port);

/// For poll(): the time until then, at least 0 and at most a minute.
int milliseconds_until(std::chrono::steady_clock::time_point end);

}  // namespace lockstep
