// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

/// The secret of all ranks of the job, where the user has set one: LOCKSTEP_SECRET, or the file LOCKSTEP_SECRET_FILE
/// that nobody else may read. Its first 32 characters count, and spaces in it are taken for '_'.
/// @throws Error{invalid_argument} if it has less than 16; Error{io} if the file cannot be read, or others may read it
std::optional<std::string> job_secret();

/// What stands for the secret of the job in an address, because addresses go through stores that others may read.
inline constexpr std::string_view secret_of_job = "-";
/// The word that the process at this address asks for, which may be that of the job, as far as this process knows it.
std::string secret_of(const TcpAddress& address);

/// The interfaces that a user has chosen for connections between hosts.
class InterfaceChoice {
 public:
  /// Reads LOCKSTEP_SOCKET_IFNAME or else NCCL_SOCKET_IFNAME, in NCCL's form ("eth,ib" are beginnings of names, "=eth0"
  /// are names, "^docker" are excluded), or else Open MPI's OMPI_MCA_btl_tcp_if_include or …_exclude (names, or subnets
  /// such as 10.0.0.0/24).
  static InterfaceChoice from_environment();
  /// @param subnets  whether words may be subnets, and words without '=' are whole names
  InterfaceChoice(std::string variable, const std::string& words, bool excludes, bool subnets);
  InterfaceChoice() = default;  ///< all interfaces

  [[nodiscard]] bool is_made() const { return !variable_.empty(); }
  /// The variable and its value, for messages.
  [[nodiscard]] std::string text() const { return variable_ + '=' + given_; }
  [[nodiscard]] const std::string& variable() const { return variable_; }
  /// @param address      of the interface, as text
  /// @param is_loopback  whether it is that of the loopback, which is used only where it is named
  [[nodiscard]] bool allows(const std::string& interface, const std::string& address, bool is_loopback) const;

 private:
  [[nodiscard]] bool names(const std::string& interface, const std::string& address) const;

  std::string variable_;
  std::string given_;
  std::vector<std::string> words_;
  bool excludes_ = false;
  bool subnets_ = false;
  bool exact_ = false;
};

/// Addresses of this host that other hosts can reach.
struct OwnAddresses {
  std::vector<std::string> hosts;  ///< the first few, IPv4 before IPv6; that of the loopback if there are no others
  bool are_chosen = false;         ///< nothing else is to be listened on
};
/// @throws Error{invalid_argument} if LOCKSTEP_SOCKET_IFNAME leaves no interface with an address, with all there are. A
///         choice that was made for NCCL or Open MPI is then ignored.
OwnAddresses own_addresses(const InterfaceChoice& choice = InterfaceChoice::from_environment());

/// A socket's address of either family.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;  ///< 0: the text was no address

  [[nodiscard]] const sockaddr* plain() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
/// @param host    an IPv4 or IPv6 address, or empty for all addresses of this host
/// @param family  AF_INET or AF_INET6, in which an IPv4 address is mapped; AF_UNSPEC: that of `host`
SocketAddress socket_address(const std::string& host, std::uint16_t port, int family = AF_UNSPEC);

/// Opens nonblocking sockets on one port; those of SOCK_STREAM listen.
/// @param hosts  an address for each socket; none: one socket at all addresses of this host, of both families where the
///         system has IPv6
/// @param port   0: any that is free at all these addresses; set to the port
/// @return none on failure, with errno set
std::vector<Descriptor> open_sockets(int type, const std::vector<std::string>& hosts, std::uint16_t& port);

/// The family of a socket. @pre it is open
int family_of(int socket);

/// The IPv4 or IPv6 address of the host at the other end of a connection; empty if there is none.
std::string host_of_peer(int connection);

/// Begins to connect without waiting. @return a closed descriptor if that fails at once, with errno set
Descriptor begin_connection(int family, const sockaddr* address, socklen_t length);
Descriptor begin_connection(const std::string& host, std::uint16_t port);

/// For poll(): the time until then, at least 0 and at most a minute.
int milliseconds_until(std::chrono::steady_clock::time_point end);

}  // namespace lockstep
