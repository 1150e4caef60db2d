// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/text_file.hpp"

namespace lockstep {

/// Where processes of other hosts reach this one, and the secret word by which they prove that they belong to the job.
struct TcpAddress {
  std::string secret;
  std::uint16_t tcp = 0;  ///< port; 0: none
  std::uint16_t udp = 0;
  std::vector<std::string> hosts;  ///< IPv4 addresses
};
/// One line of text: "secret tcp-port udp-port address…".
std::string to_text(const TcpAddress& address);
TcpAddress tcp_address_from(const std::string& text);

/// A secret of 32 hexadecimal digits.
std::string random_word();

/// The first few IPv4 addresses of this host, without that of the loopback if there are others.
std::vector<std::string> own_addresses();

sockaddr_in socket_address(const std::string& host, std::uint16_t port);

/// Opens a nonblocking socket on any port; one of SOCK_STREAM listens. @param host  whose address it gets
/// @param port  set to the port @return a closed one on failure, with errno set
Descriptor open_socket(int type, const std::string& host, std::uint16_t& port);

/// Begins to connect without waiting. @return a closed descriptor if that fails at once, with errno set
Descriptor begin_connection(int family, const sockaddr* address, socklen_t length);
Descriptor begin_connection(const std::string& host, std::uint16_t port);

/// For poll(): the time until then, at least 0 and at most a minute.
int milliseconds_until(std::chrono::steady_clock::time_point end);

}  // namespace lockstep
