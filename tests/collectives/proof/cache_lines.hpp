// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// A node whose ranks are bound to one core each, in the order of the cores. Ranks that share a cache are next to each
/// other, as are those of a socket.
///
/// The defaults are those of a node with two AMD EPYC processors of 64 cores (Zen 3), as far as they are published:
/// latencies from one core to another, rates of the links between caches, between sockets and to the memory. They rank
/// plans and do not predict the times of a machine.
struct NodeModel {
  int cores_per_cache = 8;
  int cores_per_socket = 64;

  double near_seconds = 22e-9;     ///< until a line of a core of the same cache arrives
  double far_seconds = 100e-9;     ///< of another cache of the socket
  double remote_seconds = 200e-9;  ///< of another socket

  int lines_in_flight = 16;  ///< that a core asks for at the same time
  /// While a line goes to one reader, it goes to no other.
  double near_turn_seconds = 2e-9;
  double far_turn_seconds = 10e-9;

  double near_bytes_per_second = 40e9;     ///< by a core out of its own cache
  double cache_bytes_per_second = 50e9;    ///< into or out of a cache, each way
  double socket_bytes_per_second = 100e9;  ///< between sockets, each way
  double memory_bytes_per_second = 200e9;  ///< of the memory channels of a socket
  std::int64_t cache_bytes = 32 << 20;     ///< of each cache; what does not fit comes from memory
  double memory_seconds = 100e-9;

  double step_seconds = 15e-9;         ///< instructions of a step
  double peer_seconds = 3e-9;          ///< instructions for each rank that a step names
  double add_bytes_per_second = 50e9;  ///< of one operand
};

/// Returns how long the plans of all ranks of a node take, whose steps run in the order of the list, as an executor
/// runs plans without messages: until the last rank is done. Reads are lines that come from another core's cache, each
/// of which goes to one reader at a time; larger amounts also wait for the links between caches and sockets. A flag is
/// seen when it has been taken from all that read it last. Up to 32 bytes of a staging area come with the flag.
/// @param buffer_bytes  of memory that all ranks together use, which decides whether it is in the caches
/// @pre   the plans have no messages
/// @cost  O(s log s) for s ranks that all steps name together
double node_seconds(std::span<const Plan> plans, std::int64_t element_bytes, std::int64_t buffer_bytes,
                    const NodeModel& model = {});

}  // namespace lockstep::collectives
