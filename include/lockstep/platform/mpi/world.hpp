// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep {

class Watchdog;

/// What the program's threads do with MPI; the standard's four levels, lowest first.
enum class ThreadLevel { single, funneled, serialized, multiple };

/// What MPI was initialized with, which may be more than was asked for; `multiple` before it is. @throws
/// Error{transport}
ThreadLevel provided_thread_level();

/// How MPI is begun, and how long the ranks may take to come.
struct WorldOptions {
  /// The thread level to ask MPI for, where the program has not initialized it. What MPI gives instead is taken; who
  /// needs more, as a progress thread does, says so.
  ThreadLevel thread_level = ThreadLevel::multiple;
  /// For all ranks to come, and of each later collective step of the world's groups up to `World::close`.
  std::chrono::duration<double> deadline = std::chrono::seconds(300);
  /// Where MPI itself does not return from a call that cannot be given up (MPI_Init, MPI_Comm_split, MPI_Finalize)
  /// within the deadline, a thread of the world's calls this once, with a sentence that says which call and what is
  /// known of its cause. It should end the process. Null: there is no such thread, and such a call may last for ever.
  std::function<void(std::string_view)> on_stuck = nullptr;
  /// Hears what there is to say that is no error, as `GroupOptions::notice`; null: nobody does.
  std::function<void(std::string_view)> notice = nullptr;
};

/// All processes of the job, and this one's place among them. Made once in `main` and passed on; never global.
///
/// Initializes MPI; a program started without mpirun is a world of one. Where the program has initialized MPI itself,
/// at whatever thread level, the world joins it and leaves finalizing to the program. MPI_COMM_WORLD keeps its error
/// handler: only on lockstep's own communicators are MPI's errors returned, to become `Error`.
///
/// Move-only. The destructor neither throws nor communicates: without `close()` MPI stays unfinalized, of which it
/// gives notice, unless an exception is on its way, which tells more.
class World {
 public:
  /// Collective over the job.
  /// @throws Error{mismatch} if the launcher started several processes that cannot see each other (`launch_mistake`);
  ///         Error{timeout} that names the ranks which have not come, after which MPI can only be aborted;
  ///         Error{transport}
  explicit World(const WorldOptions& options = {});
  World(World&&) noexcept = default;
  World& operator=(World&&) = delete;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  [[nodiscard]] Rank rank() const { return group_.rank(); }
  [[nodiscard]] int size() const { return group_.size(); }
  /// Says which rank is on which node.
  [[nodiscard]] const ClusterShape& shape() const { return group_.shape(); }
  /// This rank's node, local rank and local size.
  [[nodiscard]] const Place& place() const { return place_; }
  /// Names of the hosts, one per rank.
  [[nodiscard]] const std::vector<std::string>& hosts() const { return group_.hosts(); }
  /// Name of this rank's host.
  [[nodiscard]] const std::string& host() const { return group_.host(); }

  /// All ranks, for start-up traffic (bootstrap.hpp) and to `dup` or `split` communicators from.
  [[nodiscard]] const MpiGroup& group() const { return group_; }
  /// The ranks of this node, in the order of their local ranks.
  [[nodiscard]] const MpiGroup& node_group() const { return node_group_; }

  /// Waits for all ranks, then finalizes MPI, unless the program initialized it itself. Collective; every group and
  /// communicator made from this world must be closed. Calling it again does nothing.
  /// @throws Error{timeout} that names the ranks which have not come within the deadline; Error{transport}
  void close();

  /// Ends all processes of the job with this exit code, without waiting for any; only this one where MPI is not
  /// running. Flushes output. Any thread may call it, also while another one is in MPI. For apps; libraries never call
  /// it.
  [[noreturn]] static void abort(int exit_code);

 private:
  std::shared_ptr<Watchdog> watchdog_;  // of MPI's blocking calls; null where nobody hears of them
  bool finalizes_ = false;              // whether this process owes MPI_Finalize
  std::function<void(std::string_view)> notice_;
  MpiGroup group_;
  MpiGroup node_group_;
  Place place_;
};

}  // namespace lockstep
