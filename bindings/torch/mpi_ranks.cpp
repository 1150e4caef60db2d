// SPDX-License-Identifier: Apache-2.0
// Ranks of MPI.
#include <algorithm>
#include <set>

#include "lockstep/base/error.hpp"
#include "lockstep/mpi.hpp"
#include "ranks.hpp"

namespace lockstep::bindings {
namespace {

bool is_ours = false;

bool is_initialized() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  return initialized != 0;
}

}  // namespace

bool has_mpi() { return true; }

JobRank job_rank() {
  int provided = 0;
  if (is_initialized()) {
    MPI_Query_thread(&provided);
  } else {
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
    is_ours = true;
  }
  if (provided < MPI_THREAD_MULTIPLE) {
    throw Error(ErrorCode::unsupported,
                "PyTorch's operations come from several threads, and MPI was initialized without MPI_THREAD_MULTIPLE: "
                "initialize it with that level, or leave it to lockstep");
  }
  JobRank job;
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.size);
  return job;
}

std::string broadcast_text(const std::string& text) {
  auto length = static_cast<int>(text.size());
  MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::string result = text;
  result.resize(static_cast<std::size_t>(length));
  MPI_Bcast(result.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD);
  return result;
}

std::unique_ptr<ProcessGroup> make_group(const std::vector<int>& ranks, int tag, std::chrono::duration<double> deadline,
                                         bool is_watched) {
  const JobRank job = job_rank();
  const std::set<int> different(ranks.begin(), ranks.end());
  if (different.size() != ranks.size() || *different.rbegin() >= job.size) {
    throw Error(ErrorCode::invalid_argument,
                "the job has " + std::to_string(job.size) + " ranks of MPI, and the group has " +
                    std::to_string(ranks.size()) +
                    ": set LOCKSTEP_TORCH_RANKS=store where other processes than those of mpirun or srun form groups");
  }
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &members);
  MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, &communicator);
  MPI_Group_free(&members);
  MPI_Group_free(&all);
  auto group = group_of(from_mpi(communicator, deadline), deadline, is_watched);
  MPI_Comm_free(&communicator);
  return group;
}

void finalize() {
  int finalized = 0;
  if (!is_ours || !is_initialized()) return;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Finalize();
}

}  // namespace lockstep::bindings
