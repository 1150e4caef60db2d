#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times the sums of ResNet-18's gradients by one MPI_Allreduce for each tensor, after backward, and by lockstep's data-parallel
# object through lockstep.h, in turn, on ranks of this machine. Prints the medians and their ratio.
#   per-tensor.sh [RANKS [ROUNDS]]   (2 ranks, 30 rounds)
#   PRESET   the build to use (release)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release}
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target lockstep_c
library=build/$preset/bindings/c
mpicc -std=c99 -O2 -Wall -Wextra -Ibindings/c mpi-scripts/bench/per_tensor.c -o "build/$preset/per_tensor" -L"$library" -llockstep_c \
  -Wl,-rpath,"$PWD/$library"
exec mpirun --bind-to none -np "${1:-2}" "build/$preset/per_tensor" "${2:-30}"
