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

/// Whether this process is the first of its job, as the launcher's environment tells before MPI is initialized (the
/// first that is set of OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, SLURM_PROCID); true without a launcher. For what one
/// process should print for all; nothing else may depend on it.
bool first_process(const Environment& environment);

}  // namespace lockstep
