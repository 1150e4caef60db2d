// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/choice/selection.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/base/types.hpp"
#include "platform/ranks/agreement.hpp"

namespace lockstep::backends {

/// Options of ranks that share memory.
struct NodeOptions {
  /// The size of a block: operations are divided into blocks of this size. Buffers outside shared memory are copied
  /// through the staging area, which should stay in the cache.
  Bytes staging{256 * 1024};
  /// Each rank reduces a whole all-reduce by itself, with a single synchronization, if it reads at most this many bytes
  /// from all other ranks together.
  Bytes pull_limit{4096};
  /// The pull limit of ranks that take turns on cores. Each synchronization costs them a round of turns, which takes
  /// longer than to read this many bytes.
  static constexpr Bytes pull_limit_in_turns{16 * 1024};
  /// Larger buffers are assumed not to be in the cache and not to be needed there. The value was measured, because the
  /// cache sizes that a virtual machine reports are not those that it gets.
  Bytes cache{8 * 1024 * 1024};
};

/// Whether messages between hosts go over TCP connections of lockstep's own (`SocketMedium`).
enum class Sockets {
  automatic,   ///< if no host has RDMA and the connections can be made
  no,          ///< everything goes by MPI, where MPI connects the ranks
  yes,         ///< also where a host has RDMA; it is an error if the connections cannot be made
  everywhere,  ///< as `yes`, and between some ranks of the same host, too, for tests
};

/// The names that a user can select: "auto", "no" and "yes".
std::span<const std::string_view> socket_names();
/// @throws Error{invalid_argument} for an unknown name, with the nearest one
Sockets parse_sockets(std::string_view name);
/// The inverse of parse_sockets.
std::string_view name(Sockets sockets);

/// Options for running plans. They are equal on all ranks of a communicator, because sizes determine the messages.
struct PlanOptions {
  collectives::Selection selection;  ///< decides for each operation and size; the communicator gives it its shape
  int operations_in_flight = 4;      ///< later operations wait for their turn
  NodeOptions node;
  Bytes message_limit{1 << 30};  ///< longer sends and recvs are divided, because MPI counts bytes in an int
  Sockets sockets = Sockets::automatic;
  bool checksum = false;  ///< whether messages over connections have checksums, and all between hosts go that way
  int connections = 1;    ///< between two ranks of different hosts, from 1 to `most_connections`
  static constexpr int most_connections = 16;
  /// An operation that does not advance on this rank for this time fails with Error{timeout}.
  std::chrono::duration<double> deadline = usual_deadline;
  Observer* observer = nullptr;  ///< is notified of each operation that ends; outlives the communicator
  /// This function gets notices that are not errors when the communicator is made; the library itself prints nothing.
  std::function<void(std::string_view)> notice = nullptr;
};

/// Returns what determines messages, their peers and their memory. If one rank had other values, it would send messages
/// that no rank awaits, or write memory that another rank reads.
std::vector<Term> terms_of(const PlanOptions& options);

/// Returns text such as "rank 2 has pull limit (bytes) 64, rank 0 has 4096"; empty if there are no differences.
/// @param mine    from `terms_of`, as the others
std::string differences(const std::vector<Term>& mine, const std::vector<Term>& theirs, Rank me, Rank other);

}  // namespace lockstep::backends
