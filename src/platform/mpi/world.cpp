// SPDX-License-Identifier: Apache-2.0
#include "lockstep/platform/mpi/world.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "platform/machine/launch.hpp"
#include "platform/mpi/arrival.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/mpi/open_groups.hpp"
#include "platform/mpi/print.hpp"

namespace lockstep {
namespace {

constexpr std::array<int, 4> levels = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                                       MPI_THREAD_MULTIPLE};

std::optional<Error> check_launch() {
  int size = 0;
  LOCKSTEP_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  const auto mistake = launch_mistake(read_environment(), size);
  if (!mistake) return std::nullopt;
  return Error(ErrorCode::mismatch, *mistake);
}

/// @return whether MPI was initialized here, and so has to be finalized here
bool start_mpi(ThreadLevel wanted) {
  int already = 0;
  LOCKSTEP_MPI(MPI_Initialized(&already));
  if (already == 0) {
    int provided = MPI_THREAD_SINGLE;
    LOCKSTEP_MPI(MPI_Init_thread(nullptr, nullptr, levels[static_cast<std::size_t>(wanted)], &provided));
  }
  if (const auto error = check_launch()) {
    if (already == 0) LOCKSTEP_MPI(MPI_Finalize());  // the verdict is the same on every rank, so all of them do
    throw Error(*error);
  }
  return already == 0;
}

}  // namespace

ThreadLevel provided_thread_level() {
  int provided = MPI_THREAD_SINGLE;
  LOCKSTEP_MPI(MPI_Query_thread(&provided));
  const auto level = std::find(levels.rbegin(), levels.rend(), provided);
  return static_cast<ThreadLevel>(level == levels.rend() ? 0 : levels.rend() - level - 1);
}

World::World(const WorldOptions& options)
    : open_groups_(std::make_shared<OpenGroups>()),
      deadline_(options.deadline),
      finalizes_(start_mpi(options.thread_level)),
      notice_(options.notice),
      group_(group_beside(MPI_COMM_WORLD, options.deadline)),
      node_group_(*group_.split(shape().node_of_rank[static_cast<std::size_t>(rank().value)], rank().value)),
      place_(place_of(shape(), rank())) {}

World::~World() {
  if (group_.closed() || std::uncaught_exceptions() > 0 || mpi_has_ended()) return;
  try {
    try {
      close();
    } catch (const std::exception& error) {
      const std::string text = "the World (rank " + std::to_string(rank().value) + " of " + std::to_string(size()) +
                               ") could not be closed as it was destroyed, and MPI is not finalized: " + error.what() +
                               "; call World::close() before, or let lockstep::run make the World";
      notice_ ? notice_(text) : print_error("lockstep", text);
    }
  } catch (...) {  // of no use to who is being destroyed
  }
}

// mpirun of Open MPI 4.1.4 does not end where one rank aborts while another is in MPI_Finalize: so all come first.
void World::close() {
  if (group_.closed()) return;
  open_groups_->close_all();
  if (finalizes_) await_arrival(communicator(group_), deadline_);
  node_group_.close();
  group_.close();
  if (finalizes_) LOCKSTEP_MPI(MPI_Finalize());
}

void World::abort(int exit_code) const {
  std::fflush(nullptr);
  // MPICH's launcher throws away what it has not read when a job is aborted, and with it the reason.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);  // where MPI_Abort returns, against the standard
}

}  // namespace lockstep
