// SPDX-License-Identifier: Apache-2.0
#pragma once

// For rooms that speak MPI: the checked call, and the communicator inside a group. Never included by a public header.

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep {

class NodeFiles;
class Rendezvous;
class Watchdog;

struct MpiGroup::Handle {
  MPI_Comm communicator = MPI_COMM_NULL;
  std::shared_ptr<NodeFiles> node_files = nullptr;   // what this process shares with others of its node
  std::shared_ptr<Rendezvous> rendezvous = nullptr;  // null: the group waits without a deadline
  std::vector<int> original_ranks = {};              // by rank: its number in the group that all others are made from
  std::uint64_t number = 0;                          // of the group, the same on all its ranks
  std::chrono::duration<double> deadline{};          // of each collective step, for its ranks to take part
  mutable std::int64_t descendants = 0;              // groups that have been made from this one
  mutable std::optional<Error> failure = std::nullopt;  // a step has failed: the ranks are no longer in step
};

struct MpiGroup::Members {
  std::vector<std::string> hosts;  // by rank
  ClusterShape shape;
};

/// The group's communicator, its errors returned. Valid until the group is closed.
/// @throws Error{invalid_argument} if the group is closed
inline MPI_Comm communicator(const MpiGroup& group) { return group.handle().communicator; }

/// Waits for a nonblocking collective call on the group's communicator to complete, for its deadline at most.
/// @param buffers  what the call reads and writes; it is kept until the program ends where the call does not complete
/// @throws Error{timeout} that names the ranks which have not taken part, and the phase (`phase.hpp`);
///         Error{transport}; what the group's earlier step has failed with
void await(const MpiGroup& group, MPI_Request request, std::shared_ptr<void> buffers = nullptr);

/// A group of the ranks of somebody else's communicator, of which nothing changes. Collective over it.
/// @param watchdog  sees to MPI's blocking calls; may be null
/// @throws Error{timeout} unless all its ranks call this within `deadline`: names those that have not; Error{transport}
MpiGroup group_beside(MPI_Comm theirs, std::chrono::duration<double> deadline,
                      std::shared_ptr<Watchdog> watchdog = nullptr);

/// The numbers that the ranks of `part` have in `whole`, by rank of `part`. Does not communicate. @throws
/// Error{transport}
std::vector<int> ranks_in(MPI_Comm whole, MPI_Comm part);

/// The name of this process's host.
std::string processor_name();

/// MPI's text for one of its error codes.
std::string mpi_error_text(int code);

/// @throws Error{transport} with MPI's text for `code` and the call that returned it. Never call it inside a callback
/// that MPI runs.
[[noreturn]] void throw_mpi_error(int code, std::string_view call, ErrorContext context = {},
                                  SourceLocation location = SourceLocation::current());

}  // namespace lockstep

/// Makes an MPI call and throws Error{transport} unless it succeeds. Further arguments initialize the ErrorContext:
/// LOCKSTEP_MPI(MPI_Irecv(…), .operation = "all_reduce", .peers = {peer});
#define LOCKSTEP_MPI(call, ...)                                                                     \
  do {                                                                                              \
    if (const int lockstep_mpi_code = (call); lockstep_mpi_code != MPI_SUCCESS)                     \
      ::lockstep::throw_mpi_error(lockstep_mpi_code, #call, ::lockstep::ErrorContext{__VA_ARGS__}); \
  } while (false)
