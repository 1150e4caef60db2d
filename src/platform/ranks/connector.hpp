// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/text_file.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"
#include "platform/tcp/connected_socket.hpp"

namespace lockstep {

/// A TCP connection to another rank of a group.
struct Connection {
  int rank;
  ConnectedSocket socket;
};

/// Makes TCP connections between ranks that know each other's addresses. Of two ranks, the lower one connects to the
/// higher one, over the first of its addresses that answers. Each proves that it knows the secret word in the
/// other's address before a connection counts, so that strangers are turned away.
class Connector {
 public:
  /// Listens on any port, of the interfaces of `InterfaceChoice`. @throws as own_addresses()
  Connector();

  /// Where others reach this rank, and the secret word; one line of text. Empty if no socket can be opened.
  [[nodiscard]] const std::string& address() const { return address_; }

  /// Connects this rank to its partners, which do the same. It takes at most `at_most`.
  /// @param partners   other ranks; this rank is a partner of each of them
  /// @param addresses  `address()` of each rank
  /// @param why_not    set to the reason, which names the rank, if not all connections could be made
  /// @return nonblocking connections to all partners that could be reached
  std::vector<Connection> connect(int me, const std::vector<int>& partners, const std::vector<std::string>& addresses,
                                  std::chrono::milliseconds at_most, std::string& why_not);

 private:
  std::vector<Descriptor> listeners_;
  std::string secret_;
  std::string address_;
};

/// Connects ranks of the group. Collective.
/// @param partners  as above
/// @param why_not   the reason, on every rank, if nothing is returned
/// @return nothing, on every rank, unless all ranks are connected to all their partners within 3 s, or a
///         quarter of the group's deadline if that is less
/// @throws Error{timeout}, Error{transport}
std::optional<std::vector<Connection>> connect_ranks(const RankSet& group, const std::vector<int>& partners,
                                                     std::string& why_not);

/// Whether this host has a network adapter with RDMA, which MPI libraries use without the kernel.
bool has_rdma();

}  // namespace lockstep
