#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs what runs on emulated GPUs with many seeds: see tests/emulated_gpu.
#   emulated-gpu.sh [--seeds N] [--first SEED] [--long]
#     --seeds N      how many (20), from SEED (0) on: each decides when the GPUs do what, and which programs are drawn
#     --long         also sums in tree order of buffers that are longer than the ranks' scratch, which take minutes
# PRESET names the build, emulated unless set. A failure prints the command that repeats it.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-emulated}
seeds=20
first=0
long=0
while [ $# -gt 0 ]; do
  case $1 in
    --seeds) seeds=${2:?"--seeds needs a number"} && shift ;;
    --first) first=${2:?"--first needs a number"} && shift ;;
    --long) long=1 ;;
    *) fail "usage: emulated-gpu.sh [--seeds N] [--first SEED] [--long]" ;;
  esac
  shift
done

if [ ! -f "build/$preset/CMakeCache.txt" ]; then cmake --preset "$preset"; fi
cmake --build "build/$preset" -j "$jobs" --target emulated_tests

tests=$PWD/build/$preset/tests
launcher=${MPIEXEC:-mpirun}
export EMULATED_GPU_MACHINE=$PWD/tests/emulated_gpu/machines/eight_gpus.json OMP_NUM_THREADS=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none

# attempt [VARIABLE=VALUE]... COMMAND...   with all that repeats it in what it prints when it fails; 77: left out
attempt() {
  local output status=0
  output=$(env EMULATED_GPU_SEED="$seed" "$@" 2>&1) || status=$?
  if [ "$status" = 0 ] || [ "$status" = 77 ]; then return; fi
  printf '%s\n' "$output" | tail -n 60
  fail "status $status: EMULATED_GPU_MACHINE=$EMULATED_GPU_MACHINE EMULATED_GPU_SEED=$seed $*"
}

for ((seed = first; seed < first + seeds; ++seed)); do
  section "seed $seed"
  for program in kernel_test one_gpu_test killed_test comm_bench_test two_hosts_test capture_test cuda_step_test cuda_ops_test; do
    attempt "$tests/emulated_$program"
  done
  attempt "$tests/emulated_threads_test" --files=then_test.cpp,succession_threads_test.cpp,failure_test.cpp,injected_faults_test.cpp
  attempt "$tests/emulated_train_test" --gtest_filter=-Long*:Large*
  for ranks in 1 2 4; do
    attempt "$launcher" -n $ranks "$tests/emulated_steps_test" --files=trainer_step_test.cpp,cuda_train_step_test.cpp
  done
  for algorithm in auto ring tree; do
    attempt LOCKSTEP_NCCL_ALGORITHM=$algorithm "$tests/emulated_threads_test" --files=contract_threads_test.cpp
    for ranks in 1 2 3 4 5 8; do
      attempt LOCKSTEP_NCCL_ALGORITHM=$algorithm "$launcher" -n $ranks "$tests/emulated_ranks_test" --files=contract_test.cpp
    done
    for ranks in 2 3 4 5; do
      attempt LOCKSTEP_NCCL_ALGORITHM=$algorithm "$launcher" -n $ranks "$tests/emulated_ranks_test" --files=succession_test.cpp
    done
  done
  for ranks in 1 2 3 4 5 8; do
    attempt LOCKSTEP_LONG_BUFFERS=$long "$launcher" -n $ranks "$tests/emulated_ranks_test" --files=tree_order_test.cpp
  done
  for ranks in 1 2 3 4; do attempt "$launcher" -n $ranks "$tests/emulated_ranks_test" --files=groups_test.cpp; done
done
section "Models that take minutes"
seed=$first
attempt "$tests/emulated_train_test" --gtest_filter=Long*:Large*
echo "Seeds $first to $((first + seeds - 1)): every test passed."
