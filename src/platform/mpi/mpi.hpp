// SPDX-License-Identifier: Apache-2.0
#pragma once

// The checked MPI call, and the communicator inside a group, for rooms that use MPI. No public header includes this
// one.

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/origin_process.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep {

class NodeFiles;
class WaitMonitor;
class Watchdog;

struct MpiGroup::Handle {
  MPI_Comm communicator = MPI_COMM_NULL;
  std::shared_ptr<NodeFiles> node_files = nullptr;      // files that this process shares with others of its node
  std::shared_ptr<WaitMonitor> monitor = nullptr;       // null: the group waits without a deadline
  std::vector<int> original_ranks = {};                 // for each rank: its rank in the group that all others are made
                                                        // from
  std::uint64_t number = 0;                             // number of the group, the same on all its ranks
  std::chrono::duration<double> deadline{};             // how long each collective step waits for its ranks
  mutable std::int64_t descendants = 0;                 // groups that have been made from this one
  mutable std::optional<Error> failure = std::nullopt;  // a step has failed: the ranks are no longer in step
  OriginProcess origin = {};                            // the process that made the group
};

struct MpiGroup::Members {
  std::vector<std::string> hosts;  // host of each rank
  ClusterShape shape;
};

/// The group's communicator, which returns its errors. Valid until the group is closed.
/// @throws Error{invalid_argument} if the group is closed
inline MPI_Comm communicator(const MpiGroup& group) { return group.handle().communicator; }

/// Waits until a nonblocking collective call on the group's communicator completes, for at most the group's deadline.
/// @param buffers  the buffers that the call reads and writes; if it does not complete, they are kept until the program
///         ends
/// @throws Error{timeout} that names the ranks that have not taken part and the phase (`phase.hpp`); Error{transport};
///         the error of an earlier failed step of the group
void await(const MpiGroup& group, MPI_Request request, std::shared_ptr<void> buffers = nullptr);

/// Makes a group of the ranks of a foreign communicator, which does not change. Collective over that communicator.
/// @param watchdog  watches MPI's blocking calls; may be null
/// @throws Error{timeout} unless all its ranks call this within `deadline`, naming those that have not;
///         Error{transport}
MpiGroup group_beside(MPI_Comm theirs, std::chrono::duration<double> deadline,
                      std::shared_ptr<Watchdog> watchdog = nullptr);

/// Makes a group of the ranks of a communicator that it takes over. Collective over that communicator.
/// @throws as above
MpiGroup group_of(MPI_Comm own, std::chrono::duration<double> deadline, std::shared_ptr<Watchdog> watchdog);

/// Returns the rank in `whole` of each rank of `part`. Does not communicate. @throws Error{transport}
std::vector<int> ranks_in(MPI_Comm whole, MPI_Comm part);
/// The same for a group of MPI, which is freed. (No overload: in MPICH all handles have the type int.)
std::vector<int> ranks_of_group_in(MPI_Comm whole, MPI_Group part);

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
