// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "lockstep/ddp/process_group.hpp"

/// The ranks of this process. They come from MPI where mpirun or srun has started them, and otherwise from PyTorch's
/// store.
namespace lockstep::bindings {

/// Whether lockstep was installed with MPI. Otherwise `job_rank`, `broadcast_text` and `make_group` throw
/// Error{unsupported}.
bool has_mpi();

/// This process's rank in the job, and the number of the job's ranks. Initializes MPI, unless the program has.
/// @throws Error{unsupported} where MPI was initialized for one thread only
struct JobRank {
  int rank = 0;
  int size = 1;
};
JobRank job_rank();

/// The value of rank 0. Collective over all ranks of the job.
std::string broadcast_text(const std::string& text);

/// Makes a group of some ranks of the job. Collective over these ranks only.
/// @param ranks  ranks of the job, by their rank in the group
/// @param tag    differs between groups that are made at the same time; the same on all of their ranks
/// @param is_watched  whether a warning of PyTorch says what all ranks do while operations of the group wait; the same
///               on all ranks
/// @throws Error{invalid_argument} unless the ranks are different ones of the job; Error{timeout | transport}
std::unique_ptr<ProcessGroup> make_group(const std::vector<int>& ranks, int tag, std::chrono::duration<double> deadline,
                                         bool is_watched);

/// Makes a group of processes that PyTorch's store connects. Collective over its ranks.
/// @param store      of this group alone
/// @param at_most    how long to wait for all ranks to come
/// @param is_watched as above
/// @throws Error{timeout | transport | mismatch}
std::unique_ptr<ProcessGroup> make_group_from_store(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                                    std::chrono::duration<double> at_most,
                                                    std::chrono::duration<double> deadline, bool is_watched);

/// Makes a group of a set, which is watched where this is wanted.
std::unique_ptr<ProcessGroup> group_of(RankSet ranks, std::chrono::duration<double> deadline, bool is_watched);

/// Finalizes MPI if `job_rank` has initialized it. @pre all groups are closed
void finalize();

}  // namespace lockstep::bindings
