// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/platform/ranks/rank_set.hpp"
#include "platform/tcp/connected_socket.hpp"
#include "platform/tcp/listener.hpp"

namespace lockstep {

/// A TCP connection to another rank of a group.
struct Connection {
  int rank;
  int lane = 0;  ///< its number among those of the two ranks
  ConnectedSocket socket;
};

/// Makes TCP connections between the ranks of a group, each of which proves that it knows the secret word in the
/// other's address before the connection counts, so that strangers are turned away.
///
/// `connect` makes those that are needed at once: of two ranks, the lower one calls the higher one, at all of its
/// addresses, of which the first that answers counts. `want` and `advance` make the others when they are first needed:
/// then one rank may need a connection much earlier than the other, so the other answers whenever it calls `advance`,
/// and a higher rank that has waited for a moment calls as well. If both call, the call of the lower one counts.
class Connector {
 public:
  /// @throws as TcpListener
  Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;
  ~Connector();

  /// Where others reach this rank, and the secret word; one line of text. Empty if no socket can be opened.
  [[nodiscard]] const std::string& address() const { return listener_.address(); }

  /// Connects this rank to its partners, which do the same. It takes at most `at_most`.
  /// @param partners   other ranks; this rank is a partner of each of them
  /// @param addresses  `address()` of each rank; `want` uses them later
  /// @param lanes      the number of connections that two ranks may have; the same on all ranks
  /// @param why_not    set to the reason, which names the rank, if not all connections could be made
  /// @return nonblocking connections to all partners that could be reached, and to others that have called
  std::vector<Connection> connect(int me, const std::vector<int>& partners, const std::vector<std::string>& addresses,
                                  std::chrono::milliseconds at_most, std::string& why_not, int lanes = 1);

  /// Begins to connect to a rank that may not need the connection yet. Does nothing if that has begun.
  /// @pre connect() has been called
  void want(int rank, int lane = 0);
  /// Makes and accepts connections without waiting. @return those that have become complete
  std::vector<Connection> advance();
  /// Adds what poll() waits for until `advance` has something to do.
  void add_to(std::vector<pollfd>& entries) const;
  /// Why a rank that is wanted cannot be reached; empty as long as it can, or this is not known.
  [[nodiscard]] std::string failure_of(int rank, int lane = 0) const;

 private:
  class Calls;

  TcpListener listener_;
  std::unique_ptr<Calls> calls_;  // after connect()
};

/// Connects ranks of the group. Collective.
/// @param connector  this rank's, which can make further connections later
/// @param partners   as above
/// @param why_not    the reason, on every rank, if nothing is returned
/// @return nothing, on every rank, unless all ranks are connected to all their partners within 3 s, or a
///         quarter of the group's deadline if that is less
/// @throws Error{timeout}, Error{transport}
std::optional<std::vector<Connection>> connect_ranks(const RankSet& group, Connector& connector,
                                                     const std::vector<int>& partners, std::string& why_not,
                                                     int lanes = 1);

/// As connect_ranks, for ranks that nothing else connects. @throws Error{transport} on every rank, instead
std::vector<Connection> require_connections(const RankSet& group, Connector& connector,
                                            const std::vector<int>& partners, int lanes = 1);

/// Whether this host has a network adapter with RDMA, which MPI libraries use without the kernel.
bool has_rdma();

}  // namespace lockstep
