// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"

namespace lockstep {

class OpenGroups;
class Watchdog;

/// What the program's threads do with MPI: the four levels of the MPI standard, lowest first.
enum class ThreadLevel { single, funneled, serialized, multiple };

/// The level that MPI was initialized with, which may be higher than the one asked for; `multiple` before it is.
/// @throws Error{transport}
ThreadLevel provided_thread_level();

/// How MPI is initialized, and how long to wait for the ranks.
struct WorldOptions {
  /// The thread level to ask MPI for, unless the program has initialized it. A lower level is accepted; what needs a
  /// higher one, such as a progress thread, says so.
  ThreadLevel thread_level = ThreadLevel::multiple;
  /// How long to wait for all ranks at the start, and in each later collective step of the world's groups, up to
  /// `World::close`.
  std::chrono::duration<double> deadline = usual_deadline;
  /// Called if MPI does not return from a call that cannot be canceled (MPI_Init, MPI_Comm_split, MPI_Finalize) within
  /// the deadline, or if this rank hangs in a task of lockstep (no thread of it computes, reads or writes): once, by a
  /// thread of the world, with a text that names the call or task, what is known of the cause, and in further lines
  /// what all ranks do, which it must not ask for by `explain_ranks`. It should end the process. Null: such a call may
  /// last forever, and there is no record of operations, except in `run`, which reports it and aborts the job.
  std::function<void(std::string_view)> on_stuck = nullptr;
  /// Receives notices, which are no errors, as `GroupOptions::notice` does. Null: notices are dropped, except in `run`,
  /// which prints them.
  std::function<void(std::string_view)> notice = nullptr;
  /// The beginning of each message of `run`. Empty: the file name of the program.
  std::string program = {};
};

/// A rank whose process has ended.
struct LostRank {
  int rank;  ///< its number at the start of the job
  std::string host;
};

/// All processes of the job, and this process's place among them. A World is passed on, never global. `run`, below,
/// makes one for the whole program.
///
/// It initializes MPI. A program that is started without mpirun is a world of one rank. Where the program has
/// initialized MPI itself, at whatever thread level, the world joins it and leaves finalizing to the program.
/// MPI_COMM_WORLD keeps its error handler: only on lockstep's own communicators are MPI's errors returned, to become an
/// `Error`.
///
/// Move-only. The destructor closes it at the normal end of a scope. If that fails, it says on standard error, or to
/// `notice`, what to call. During stack unwinding it closes nothing, because the other ranks may never arrive; MPI is
/// then not finalized, and the launcher ends the job.
class World {
 public:
  /// Collective over the job.
  /// @throws Error{mismatch} if the launcher started several processes that cannot see each other (`launch_mistake`);
  ///         Error{timeout} that names the missing ranks, after which MPI can only be aborted; Error{transport}
  explicit World(const WorldOptions& options = {});
  World(World&&) noexcept = default;
  World& operator=(World&&) = delete;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  [[nodiscard]] Rank rank() const { return group_.rank(); }
  [[nodiscard]] int size() const { return group_.size(); }
  /// The node of each rank.
  [[nodiscard]] const ClusterShape& shape() const { return group_.shape(); }
  /// This rank's node, local rank and local size.
  [[nodiscard]] const Place& place() const { return place_; }
  /// The names of the hosts, one for each rank.
  [[nodiscard]] const std::vector<std::string>& hosts() const { return group_.hosts(); }
  /// The name of this rank's host.
  [[nodiscard]] const std::string& host() const { return group_.host(); }

  /// All ranks, for exchanges at start-up, and for making communicators with `dup` and `split`.
  [[nodiscard]] const RankSet& group() const { return group_; }
  /// The ranks of this node, in the order of their local ranks.
  [[nodiscard]] const RankSet& node_group() const { return node_group_; }

  /// Closes the groups that were made of this world and are still open, the last one first, waits for all ranks, and
  /// finalizes MPI, unless the program initialized it itself or ranks have died, for which MPI_Finalize may wait.
  /// Collective. Calling it again does nothing.
  /// @throws Error{invalid_argument} if an operation of a group is under way; Error{timeout} that names the ranks that
  ///         have not arrived within the deadline; Error{transport}
  void close();

  /// Sets how long each later collective step of this world, close() among them, waits for the other ranks.
  void set_deadline(std::chrono::duration<double> deadline) { group_.set_deadline(deadline); }

  /// Explains what all ranks do: their processes' states, tasks, training steps and last operations, and the stacks of
  /// their threads, grouped, those of the fewest ranks first. Each process answers by a thread of its own, even while
  /// MPI is stuck; of one that does not answer, a rank of its node says what it knows. It takes at most 2 s, and is not
  /// collective; any thread may call it. The program `lockstep-stacks` prints the same from outside.
  /// @return empty without `WorldOptions::on_stuck`, and after close()
  [[nodiscard]] std::string explain_ranks() const;

  /// Why the ranks of this job cannot go on without one that has died, and the remedy; empty if they can, which takes
  /// Open MPI 5 and `mpirun --with-ft ulfm`. Equal on all ranks.
  [[nodiscard]] std::string why_not_elastic() const;

  /// Calls `body`, which uses groups of this world and throws an Error as soon as one of their ranks has died. Then the
  /// living ranks become the world (`rank`, `size`, `hosts` and all else are theirs), and `body` is called again, with
  /// the ranks that were lost since its last call. This goes on until `body` has returned on all living ranks.
  /// Collective.
  ///
  /// The first thing that `body` does with lost ranks is to make new groups, give them to each `DataParallel`
  /// (`rebind`), and bring all ranks to the furthest step that one of them has completed: ranks may differ by one step.
  /// Groups, and buffers of their operations, live outside of `body` until it has replaced them, because another rank
  /// may still read them.
  /// @throws Error{unsupported} on every rank if `why_not_elastic` says why; what `body` throws if no rank has died, or
  ///         if it is no Error{transport}
  void run_elastic(const std::function<void(const std::vector<LostRank>& lost)>& body);

  /// Ends all processes of the job with this exit code, without waiting; if MPI is not running, ends only this process.
  /// It flushes output. Any thread may call it, also while another thread is in MPI. It is for programs; the library
  /// itself calls it only in `run`.
  [[noreturn]] static void abort(int exit_code);

  /// Each group registers here when it is made, so that it can be closed before MPI ends.
  [[nodiscard]] const std::shared_ptr<OpenGroups>& open_groups() const { return open_groups_; }
  /// `WorldOptions::notice`, which also receives the notices of groups that have none of their own. May be null.
  [[nodiscard]] const std::function<void(std::string_view)>& notice() const { return notice_; }

 private:
  class Survivors;
  /// Becomes the world of these ranks. Collective over them.
  void become(RankSet group);

  std::shared_ptr<OpenGroups> open_groups_;
  std::shared_ptr<Watchdog> watchdog_;  // null if nobody would receive its reports
  bool finalizes_ = false;              // whether this process must call MPI_Finalize
  std::function<void(std::string_view)> notice_;
  RankSet group_;
  RankSet node_group_;
  Place place_;
  bool outlives_deaths_ = false;  // run_elastic has returned, so that a death ends nothing any more
  bool has_lost_ranks_ = false;
};

/// The exit codes of a program that ends with `run`, on every rank. If a process is killed, mpirun returns 128 plus the
/// number of the signal instead.
enum ExitCode : int {
  exit_success = 0,
  exit_error = 1,      ///< something failed; one line on standard error says what, and on which rank
  exit_usage = 2,      ///< the command line or a configuration file is wrong (`UsageError`); nothing was started
  exit_stopped = 3,    ///< a signal or a time limit ended the run in good order, before it was completed
  exit_timeout = 4,    ///< a rank did not answer in time; standard error says which, and what all ranks were doing
  exit_not_saved = 5,  ///< the run has ended, but no checkpoint has its final state; the last line says why
};

/// A wrong command line. It is wrong in the same way on every rank, since all ranks have the same one.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Does what the template below does. @return an ExitCode, or the result of `body`
int run_in_world(const WorldOptions& options, const std::function<int(World&)>& body);

/// Runs a program's function on every rank of the job. It is the way into lockstep:
///
///     int main() {
///       return lockstep::run([](lockstep::World& world) { … });
///     }
///
/// When the function has returned, groups that are still open are closed, output is flushed, and MPI is finalized. The
/// exit code is what the function returned, or 0 if it returns void. Where it throws:
/// - A `UsageError`, or an `Error` that is on every rank, is reported by rank 0, and all ranks end in good order.
/// - Any other exception is reported by this rank, in one line that begins with the program's name and names rank and
///   host. The other ranks notice it when they use a group, and end as well, without a message of their own. The job
///   is aborted only if one of them has not ended within a few seconds, because it computes or waits for something
///   else.
/// Output that could not be written, as on a full disk, is an error of this rank.
/// @param body  takes a `World&` and returns void or an exit code
/// @return the exit code for main(); an ExitCode on every rank that threw
template <std::invocable<World&> Body>
int run(const WorldOptions& options, Body&& body) {
  return run_in_world(options, [&body](World& world) -> int {
    if constexpr (std::is_void_v<std::invoke_result_t<Body&, World&>>) {
      body(world);
      return exit_success;
    } else {
      return body(world);
    }
  });
}
/// Runs `body` with the default options.
template <std::invocable<World&> Body>
int run(Body&& body) {
  return run(WorldOptions{}, std::forward<Body>(body));
}

}  // namespace lockstep
