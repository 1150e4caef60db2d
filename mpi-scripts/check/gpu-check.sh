#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On a machine with a GPU: builds the preset cuda, runs the tests that need a GPU, trains, and compares the speed of training
# with PyTorch's, and notes what all of it ran on.
#   gpu-check.sh [--out FILE] [--no-build] [STAGE...]
# FILE gets everything that is printed (default build/gpu-check.txt). With --no-build, build/cuda is taken as it is. The
# stages are tests, comm, train, speed, which needs a python3 that imports torch, and sanitizer; all unless some are named.
# It takes an hour; gpu-short.sh does in two times five minutes what is worth most.
# Nothing is installed. Where the packages of install-deps.sh are not, a folder made by gpu-carry.sh takes their place:
#   LOCKSTEP_PREFIX=build/carry/usr mpi-scripts/check/gpu-check.sh
# Where the loader finds no NCCL or cuDNN, those of the python3 that imports torch are taken.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
source mpi-scripts/check/gpu-common.sh

out=build/gpu-check.txt
build=yes
while :; do
  case ${1:-} in
    --out)
      out=${2:?--out needs a file}
      shift 2
      ;;
    --no-build)
      build=
      shift
      ;;
    -*) fail "unknown option '$1'; usage: gpu-check.sh [--out FILE] [--no-build] [STAGE...]" ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || set -- tests comm train speed sanitizer
for stage; do
  case $stage in
    tests | comm | train | speed | sanitizer) ;;
    *) fail "unknown stage '$stage'; there are tests, comm, train, speed and sanitizer" ;;
  esac
done
stages=("$@")
mkdir -p "$(dirname "$out")"

describe() {
  section "What this ran on"
  echo "date    $(date -u +%Y-%m-%dT%H:%M:%SZ)"
  echo "commit  $(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)"
  nvidia-smi --query-gpu=name,uuid,driver_version,memory.total --format=csv,noheader | sed 's/^/gpu     /'
  grep -hE '^(CUDAToolkit_NVCC_EXECUTABLE|CUDA_CUDART|NCCL_INCLUDE_DIR|NCCL_LIBRARY)' build/cuda/CMakeCache.txt || true
  grep -h 'building the nccl back end' build/cuda/configure.log || true
}

check() {
  nvidia-smi -L || fail "there is no GPU here: nvidia-smi does not list one"
  if [ -n "$build" ]; then
    section "Build (preset cuda)"
    mkdir -p build/cuda
    cmake --preset cuda | tee build/cuda/configure.log
    cmake --build --preset cuda -j "$jobs"
  fi
  describe
  use_built_nccl
  local stage
  for stage in "${stages[@]}"; do "check_$stage"; done
}

check_tests() {
  # None may be skipped for want of a GPU.
  section "Whether CUDA and NCCL do what their emulation takes from the documents"
  LOCKSTEP_REQUIRE=gpu,cuda ctest --preset gpu -V -R semantics
  section "Tests that need a GPU"
  LOCKSTEP_REQUIRE=gpu,cuda ctest --preset gpu -V -E semantics
}

check_comm() {
  section "comm-bench on the GPU"
  local algorithm
  for algorithm in auto ring tree tree-order; do  # a process has one of NCCL's own
    build/cuda/bin/comm-bench --device cuda --algorithm "$algorithm" --max 16M --seconds 0.1
  done
}

# Losses beside the CPU's, the same weights in repeated runs, captured and not, and what a step's operators reach.
check_train() {
  section "Training: the losses of CPU and GPU, and the weights of runs that are repeated, captured and not"
  python3 mpi-scripts/check/gpu_short.py --seconds 3600 --programs build/cuda losses sha
  section "Training: the operators of a step"
  build/cuda/bin/train --device cuda --eval-interval never --save-dir none --model resnet18 --dataset synthetic-cifar --batch 1024 \
    --steps 1 --precision bf16 --explain-step
}

check_speed() {
  section "Training beside PyTorch"
  python3 -c 'import torch; print("PyTorch", torch.__version__)' || fail "python3 imports no torch: install PyTorch, or name other stages"
  python3 mpi-scripts/check/compare_gpu.py build/cuda/bin/train
}

check_sanitizer() {
  # memcheck also counts calls of NCCL's that look for kernels of other GPUs and fail (cudaErrorNoKernelImageForDevice).
  local tool
  for tool in memcheck racecheck synccheck; do
    section "compute-sanitizer $tool"
    compute-sanitizer --tool "$tool" --error-exitcode 1 build/cuda/bin/train --device cuda --model resnet20 \
      --dataset synthetic-cifar --batch 32 --steps 3 --eval-interval never --save-dir none
  done
}

[ -z "${LOCKSTEP_PREFIX:-}" ] || use_prefix "$LOCKSTEP_PREFIX"
use_wheels
check 2>&1 | tee "$out"
