// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

namespace lockstep {

using Environment = std::map<std::string, std::string>;

/// The environment of this process.
Environment read_environment();

/// Detects processes that were launched together but each believe they are alone: an MPI library that does not speak
/// the launcher's protocol makes every process rank 0 of 1, and each would train the whole model by itself.
///
/// Of OMPI_COMM_WORLD_SIZE, PMI_SIZE and SLURM_STEP_NUM_TASKS the first that is set decides: it was set by the launcher
/// nearest to this process. A positive PMIX_RANK also shows it. Variables of an allocation (SLURM_JOB_ID, SLURM_NTASKS)
/// prove nothing, since a program started in one without a launcher is rightly alone.
/// @param mpi_size  the number of processes that MPI reports
/// @return an explanation that names the variable, its value and the remedy; nothing where all is well
std::optional<std::string> launch_mistake(const Environment& environment, int mpi_size);

/// Detects, before MPI is initialized, that srun started several processes (SLURM_STEP_NUM_TASKS is at least 2) which
/// MPI cannot connect: with `srun --mpi=none` no variables of PMIx, PMI or an mpirun are there. Open MPI would end in
/// MPI_Init.
/// @param needs_pmix  the MPI library cannot use PMI-1 and PMI-2, as from `srun --mpi=pmi2`
/// @return an explanation that names the remedy; nothing where all is well
std::optional<std::string> missing_pmi(const Environment& environment, bool needs_pmix);

/// The rank of this process, as the launcher's environment tells before MPI is initialized (the first that is set of
/// OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, SLURM_PROCID); nothing without a launcher. For messages only.
std::optional<int> process_number(const Environment& environment);

/// The processes that the launcher started on this host beside this one and that are stopped (SIGSTOP, a debugger):
/// "process 4711 (rank 2) on this host is stopped". Empty if there is none.
std::string stopped_neighbors();

/// Whether this process is the first of its job by `process_number`; true without a launcher. For what one process
/// should print for all; nothing else may depend on it.
bool first_process(const Environment& environment);

}  // namespace lockstep
