#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs packages, builds lockstep, where it is not installed, and the program of this folder, and runs it on two ranks.
#   run.sh [CMAKE_OPTION...]    such as -DCMAKE_PREFIX_PATH=DIR, where lockstep is installed
#   RANKS (2)   how many ranks;  BUILD (build/minimal)   where to build;  MPIEXEC (mpirun)   what starts the ranks
source "$(dirname "${BASH_SOURCE[0]}")/../../mpi-scripts/common.sh"

build=${BUILD:-build/minimal}
mpi-scripts/install-deps.sh --build-only
CMAKE_GENERATOR=Ninja cmake -S examples/minimal -B "$build" -DCMAKE_BUILD_TYPE=Release "$@"
cmake --build "$build" -j "$jobs" --target minimal
# On a machine with fewer processors than ranks, too.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
"${MPIEXEC:-mpirun}" -n "${RANKS:-2}" "$build/minimal"
