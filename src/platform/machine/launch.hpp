// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>

namespace lockstep {

using Environment = std::map<std::string, std::string>;

/// The name of this process's host: "this host" if the system does not tell.
std::string host_name();

/// The kernel's boot id, which is the same for two hosts that are containers or network namespaces of one machine, and
/// differs between machines. @return `otherwise` if the system does not tell
std::string machine_identity(const std::string& otherwise);

/// The environment of this process.
Environment read_environment();

/// Detects processes that were launched together although MPI_COMM_WORLD has fewer ranks, usually each process as rank
/// 0 of 1. This happens if the MPI library does not speak the launcher's protocol; each process would then train the
/// whole model by itself.
///
/// The first of OMPI_COMM_WORLD_SIZE, PMI_SIZE and SLURM_STEP_NUM_TASKS that is set decides, because the launcher
/// nearest to this process has set it. Before these, torchrun's WORLD_SIZE decides (with TORCHELASTIC_RUN_ID, because
/// others set WORLD_SIZE, too), since `srun torchrun` starts one task on each node; but a variable of mpirun or PMI
/// that says what MPI says of several ranks shows that an mpirun inside torchrun has connected them. A PMIX_RANK
/// outside MPI_COMM_WORLD is evidence too. Variables of an allocation (SLURM_JOB_ID, SLURM_NTASKS) prove nothing,
/// because a program that is started in an allocation without a launcher is one process.
/// @param mpi_size  the number of ranks in MPI_COMM_WORLD after MPI_Init; the size of no other communicator, which may
///        rightly be smaller
/// @return an explanation that names the variable, its value and the remedy; nothing if there is no mistake
std::optional<std::string> launch_mistake(const Environment& environment, int mpi_size);

/// Detects, before MPI is initialized, that srun started several processes (SLURM_STEP_NUM_TASKS is at least 2) which
/// MPI cannot connect: with `srun --mpi=none` there are no variables of PMIx, PMI or an mpirun. Open MPI would exit in
/// MPI_Init.
/// @param needs_pmix  the MPI library cannot use PMI-1 and PMI-2, as from `srun --mpi=pmi2`
/// @return an explanation that names the remedy; nothing if there is no mistake
std::optional<std::string> missing_pmi(const Environment& environment, bool needs_pmix);

/// The rank of this process according to the launcher's environment, before MPI is initialized: the first variable that
/// is set of OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, SLURM_PROCID and, under torchrun, RANK; nothing without a
/// launcher. For messages only.
std::optional<int> process_number(const Environment& environment);

/// Whether the launcher says that all ranks of the job are on this host, before MPI is initialized: by the numbers of
/// ranks in the variables of Open MPI or MPICH. False without them.
bool all_on_this_host(const Environment& environment);

/// Returns the fields of the file `stat` in a folder of /proc, of a process or a thread, behind its name, which may
/// contain anything.
std::istringstream stat_fields(const std::filesystem::path& folder);

/// Lists the other processes that the launcher started on this host and that are stopped (SIGSTOP, a debugger):
/// "process 4711 (rank 2) on this host is stopped". Empty if there is none.
std::string stopped_neighbors();

/// Whether this process is the first of its job by `process_number`; true without a launcher. Use it only to decide
/// which process prints for all.
bool first_process(const Environment& environment);

}  // namespace lockstep
