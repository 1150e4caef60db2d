// SPDX-License-Identifier: Apache-2.0
#include "lockstep/mpi/world.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/origin_process.hpp"
#include "mpi/mpi_messages.hpp"
#include "mpi/print.hpp"
#include "platform/machine/launch.hpp"
#include "platform/mpi/blocking_call.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/make_node_memory.hpp"
#include "platform/ranks/open_groups.hpp"
#include "platform/ranks/phase.hpp"
#include "platform/ranks/watch.hpp"
#include "platform/watchdog/watchdog.hpp"

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

/// Whether this MPI library can be started by PMIx only. This is true of Open MPI 5, and of Open MPI 4 unless it was
/// built with one of Slurm's older libraries; it then has a component for that library, a file next to its own.
bool needs_pmix() {
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5
  return true;
#elif defined(OMPI_MAJOR_VERSION)
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(&MPI_Init_thread), &library) == 0) return false;
  bool has_pmix = false;
  bool has_pmi = false;
  std::error_code none;
  const auto folder = std::filesystem::path(library.dli_fname).parent_path() / "openmpi";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, none)) {
    const std::string name = entry.path().filename();
    has_pmix = has_pmix || name.starts_with("mca_pmix_");
    has_pmi = has_pmi || name.starts_with("mca_pmix_s") || name.starts_with("mca_pmix_cray");
  }
  return has_pmix && !has_pmi;
#else
  return false;
#endif
}

void initialize_mpi(ThreadLevel wanted, const std::shared_ptr<Watchdog>& watchdog) {
  const Environment environment = read_environment();
  if (const auto mistake = missing_pmi(environment, needs_pmix())) {
    const auto host = environment.find("SLURMD_NODENAME");
    throw Error(ErrorCode::mismatch, *mistake,
                {.rank = process_number(environment), .host = host == environment.end() ? "" : host->second})
        .on_every_rank();
  }
  const BlockingCall call(watchdog, "MPI_Init");
  int provided = MPI_THREAD_SINGLE;
  LOCKSTEP_MPI(MPI_Init_thread(nullptr, nullptr, levels[static_cast<std::size_t>(wanted)], &provided));
}

/// Returns the process that called this first. A World's constructor does.
const OriginProcess& process_of_mpi() {
  static const OriginProcess process;
  return process;
}

/// @return whether MPI was initialized here, and therefore has to be finalized here
bool start_mpi(ThreadLevel wanted, const std::shared_ptr<Watchdog>& watchdog) {
  (void)process_of_mpi();
  int already = 0;
  LOCKSTEP_MPI(MPI_Initialized(&already));
  if (already == 0) initialize_mpi(wanted, watchdog);
  if (const auto error = check_launch()) {
    if (already == 0) LOCKSTEP_MPI(MPI_Finalize());  // the verdict is the same on every rank, so all of them finalize
    throw Error(*error).on_every_rank();
  }
  return already == 0;
}

/// Also checks the deadline, because it comes before MPI is initialized.
std::shared_ptr<Watchdog> make_watchdog(const WorldOptions& options) {
  require_deadline(options.deadline);
  if (!options.on_stuck) return nullptr;
  return std::make_shared<Watchdog>(Watchdog::Options{
      .deadline = options.deadline, .is_local = all_on_this_host(read_environment()), .on_stuck = options.on_stuck});
}

RankSet node_group_of(const RankSet& all) {
  const Phase phase(all, "starting up");
  return split_by_node(all, all.shape());
}

}  // namespace

ThreadLevel provided_thread_level() {
  int initialized = 0;
  LOCKSTEP_MPI(MPI_Initialized(&initialized));
  if (initialized == 0) return ThreadLevel::multiple;
  const int provided = provided_mpi_level();
  const auto level = std::find(levels.rbegin(), levels.rend(), provided);
  return static_cast<ThreadLevel>(level == levels.rend() ? 0 : levels.rend() - level - 1);
}

World::World(const WorldOptions& options)
    : open_groups_(std::make_shared<OpenGroups>()),
      watchdog_(make_watchdog(options)),
      finalizes_(start_mpi(options.thread_level, watchdog_)),
      notice_(options.notice),
      group_(group_beside(MPI_COMM_WORLD, options.deadline, mpi_messages(), watchdog_)),
      node_group_(node_group_of(group_)),
      place_(place_of(shape(), rank())) {
  share_records(group_, node_group_);
}

void World::become(RankSet group) {
  group_ = std::move(group);
  node_group_ = node_group_of(group_);
  place_ = place_of(shape(), rank());
  share_records(group_, node_group_);
}

World::~World() {
  if (open_groups_ && !open_groups_->origin().is_here()) {
    keep_in_child(std::move(*this));
    return;
  }
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
  } catch (...) {  // the destructor cannot report it
  }
}

// mpirun of Open MPI 4.1.4 does not end if one rank aborts while another is in MPI_Finalize, so all ranks meet first.
void World::close() {
  if (group_.closed()) return;
  open_groups_->origin().require_here("the World", {.rank = rank().value, .host = host()});
  open_groups_->close_all();
  try {
    const Phase phase(group_, "closing the World");
    barrier(group_);
  } catch (const Error& error) {
    if (!outlives_deaths_ || error.code() != ErrorCode::transport) throw;
    has_lost_ranks_ = true;
  }
  node_group_.close();
  group_.close();
  if (!finalizes_ || has_lost_ranks_) return;
  const BlockingCall call(watchdog_, "MPI_Finalize");
  LOCKSTEP_MPI(MPI_Finalize());
}

std::string World::explain_ranks() const { return watchdog_ ? watchdog_->explain_job() : std::string(); }

void World::abort(int exit_code) {
  std::fflush(nullptr);
  int is_initialized = 0;
  int is_finalized = 0;
  MPI_Initialized(&is_initialized);
  MPI_Finalized(&is_finalized);
  if (is_initialized != 0 && is_finalized == 0 && process_of_mpi().is_here()) {
    // When a job is aborted, MPICH's launcher drops output that it has not read, such as the reason.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  }
  std::_Exit(exit_code);  // also if MPI_Abort returns, against the standard
}

}  // namespace lockstep
