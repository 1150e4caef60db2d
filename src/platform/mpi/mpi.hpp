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

#include "lockstep/base/error.hpp"
#include "platform/ranks/rank_link.hpp"

namespace lockstep {

class WaitMonitor;
class Watchdog;

/// Whether MPI is finalized, so that nothing can be sent or freed any more. Not collective; it does not throw.
bool mpi_has_ended();

/// Ranks of an MPI communicator that lockstep owns, so that its messages cannot meet those of anybody else.
class MpiLink final : public RankSet::Link {
 public:
  /// Takes over the communicator. @param hosts_and_shape  what is known of its ranks
  /// @param of_ancestor  the link from which its group is made; its deadline, files and monitor serve this one, too.
  ///                     May be null
  MpiLink(MPI_Comm own, std::shared_ptr<const RankSet::Members> hosts_and_shape, const MpiLink* of_ancestor);

  using RankSet::Link::all_gather;
  [[nodiscard]] std::vector<std::int64_t> all_gather(std::int64_t mine) override;
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view mine) override;
  [[nodiscard]] std::vector<std::string> gather(std::string_view mine, Rank root) override;
  [[nodiscard]] std::string broadcast(std::string_view value, Rank root) override;
  void barrier() override;
  [[nodiscard]] std::unique_ptr<RankSet::Link> dup() override;
  [[nodiscard]] std::unique_ptr<RankSet::Link> split(std::optional<int> color, int key) override;
  /// Frees the communicator, unless its ranks are no longer in step, because calls may still be under way in it then.
  void close() override;
  [[nodiscard]] std::unique_ptr<ControlLink> make_control_link(const RankSet& set) override;
  [[nodiscard]] std::unique_ptr<Exchange> make_exchange(const RankSet& set) override;
  [[nodiscard]] HasEnded has_ended() const override { return mpi_has_ended; }
  [[nodiscard]] bool may_change_threads() const override;

  /// Lets ranks wait with a deadline from now on, for this link and all that are made from it.
  void watch(std::shared_ptr<WaitMonitor> by);

  MPI_Comm communicator;
  std::shared_ptr<WaitMonitor> monitor;  // null: the ranks wait without a deadline
  std::vector<int> original_ranks;       // for each rank: its rank in the set that all others are made from
  std::uint64_t number = 0;              // number of the set, the same on all its ranks
  std::int64_t descendants = 0;          // sets that have been made from this one

 private:
  [[nodiscard]] MPI_Comm usable() const;
  void await(MPI_Request request, std::shared_ptr<void> buffers = nullptr);
};

/// Makes a way for texts between the ranks of a communicator, of which only their messages with this tag are used.
/// Closing it frees the communicator, unless this rank has sent a text, because answers may still be under way then.
/// What could not leave is kept until the program ends.
std::unique_ptr<ControlLink> make_mpi_control_link(MPI_Comm communicator, int tag);

/// The link of a set that was made by MPI. @throws Error{unsupported} for another set; Error{invalid_argument} if the
/// set is closed
MpiLink& mpi_link(const RankSet& set);

/// The group's communicator, which returns its errors. Valid until the group is closed.
/// @throws Error{invalid_argument} if the group is closed
inline MPI_Comm communicator(const RankSet& group) { return mpi_link(group).communicator; }

/// Makes a group of the ranks of a foreign communicator, which does not change. Collective over that communicator.
/// @param messages  carries the messages of the set's communicators; lives as long as the program
/// @param watchdog  watches MPI's blocking calls; may be null
/// @throws Error{timeout} unless all its ranks call this within `deadline`, naming those that have not;
///         Error{transport}
RankSet group_beside(MPI_Comm theirs, std::chrono::duration<double> deadline, const MessageCarrier& messages,
                     std::shared_ptr<Watchdog> watchdog = nullptr);

/// Makes a group of the ranks of a communicator that it takes over. Collective over that communicator.
/// @throws as above
RankSet group_of(MPI_Comm own, std::chrono::duration<double> deadline, const MessageCarrier& messages,
                 std::shared_ptr<Watchdog> watchdog);

/// Returns the rank in `whole` of each rank of `part`. Does not communicate. @throws Error{transport}
std::vector<int> ranks_in(MPI_Comm whole, MPI_Comm part);
/// The same for a group of MPI, which is freed. (No overload: in MPICH all handles have the type int.)
std::vector<int> ranks_of_group_in(MPI_Comm whole, MPI_Group part);

/// The thread level that MPI was initialized with: MPI_THREAD_SINGLE, … @throws Error{transport}
int provided_mpi_level();

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
