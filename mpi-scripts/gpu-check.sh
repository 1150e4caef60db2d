#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On a machine with a GPU: builds the preset cuda, runs the tests that need a GPU, trains, and compares the speed of training
# with PyTorch's, and notes what all of it ran on.
#   gpu-check.sh [--out FILE] [--no-build] [STAGE...]
# FILE gets everything that is printed (default build/gpu-check.txt). With --no-build, build/cuda is taken as it is. The
# stages are tests, comm, train, speed, which needs a python3 that imports torch, and sanitizer; all unless some are named.
# Nothing is installed. Where the packages of install-deps.sh are not, a folder made by gpu-carry.sh takes their place:
#   LOCKSTEP_PREFIX=carry/usr mpi-scripts/gpu-check.sh
# Where the loader finds no NCCL or cuDNN, those of the python3 that imports torch are taken.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

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

# Packages that gpu-carry.sh fetched, unpacked beside them; and the names that installing would have given Open MPI's tools.
unpack() {
  local root=$1 package tool
  for package in "$root"/packages/*.deb; do dpkg -x "$package" "$root"; done
  for tool in mpicc mpicxx mpirun mpiexec; do ln -sf "$tool.openmpi" "$root/usr/bin/$tool"; done
}

# NCCL, cuDNN, and what cuDNN compiles with, from PyTorch's packages.
use_wheels() {
  local folder library
  folder=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null) || return 0
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
  for library in nccl cudnn cu13; do LD_LIBRARY_PATH+=:$folder/$library/lib; done
}

# Programs, libraries and headers from there.
use_prefix() {
  local prefix libraries
  [ -d "$1/bin" ] || unpack "$(dirname "$1")"
  prefix=$(realpath "$1")
  libraries=$prefix/lib/$(uname -m)-linux-gnu
  export PATH=$prefix/bin:$PATH
  export LD_LIBRARY_PATH=$libraries:$libraries/openmpi/lib:${LD_LIBRARY_PATH:-}
  export LIBRARY_PATH=$libraries:${LIBRARY_PATH:-}
  export CMAKE_PREFIX_PATH=$prefix
  export PKG_CONFIG_PATH=$libraries/pkgconfig:$prefix/share/pkgconfig
  export PKG_CONFIG_SYSROOT_DIR=${prefix%/usr}
  export OPAL_PREFIX=$prefix OPAL_LIBDIR=$libraries OPAL_PKGLIBDIR=$libraries/openmpi/lib/openmpi3
  export OPAL_SYSCONFDIR=${prefix%/usr}/etc/openmpi
  export HWLOC_PLUGINS_PATH=$libraries/hwloc
}

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
  # Where the loader does not know the NCCL that was found, lockstep is told.
  local nccl
  nccl=$(sed -n 's/^NCCL_LIBRARY:[A-Z]*=\(\/.*\)/\1/p' build/cuda/CMakeCache.txt)
  [ ! -e "$nccl" ] || export LOCKSTEP_NCCL_LIBRARY=${LOCKSTEP_NCCL_LIBRARY:-$nccl}
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

train() { build/cuda/bin/train --device cuda --eval-interval never --save-dir none "$@"; }

# Losses beside the CPU's, the same weights in repeated runs, captured and not, and what a step's operators reach.
check_train() {
  section "Training: the losses of CPU and GPU"
  local metrics=build/gpu-check
  mkdir -p "$metrics"
  # By larger rates, the two libraries for CPUs differ by more than 1e-4, too: batch norm over a few samples makes much of small
  # differences.
  for model in lenet:0.02 resnet20:0.0001 unet:0.001 detector:0.0001; do
    local rate=${model#*:}
    model=${model%:*}
    local run=(--model "$model" --dataset "$(dataset_of "$model")" --batch 16 --steps 10 --warmup 0 --log-every 1 --lr "$rate")
    rm -f "$metrics"/{cpu,gpu}.jsonl
    train "${run[@]}" --metrics "$metrics/gpu.jsonl" >/dev/null
    train "${run[@]}" --metrics "$metrics/cpu.jsonl" --device cpu --ops reference >/dev/null
    python3 - "$model" "$metrics" <<'END'
import json, sys
losses = [[e["loss"] for e in map(json.loads, open(f"{sys.argv[2]}/{d}.jsonl")) if e["event"] == "step"] for d in ("cpu", "gpu")]
print(f"{sys.argv[1]}: the largest difference of {len(losses[0])} losses is {max(abs(a - b) for a, b in zip(*losses)):.1e}")
END
  done
  section "Training: repeated, captured and not, the weights are the same"
  local of20=(--model resnet20 --dataset synthetic-cifar --batch 128 --steps 60 --precision bf16)
  for how in "" "" "--without-pass capture"; do
    # shellcheck disable=SC2086
    train "${of20[@]}" $how | grep 'weights sha256'
  done
  section "Training: the operators of a step"
  train --model resnet18 --dataset synthetic-cifar --batch 1024 --steps 1 --precision bf16 --explain-step
}

dataset_of() {
  case $1 in
    lenet) echo synthetic-digits ;;
    unet) echo synthetic-masks ;;
    detector) echo synthetic-boxes ;;
    *) echo synthetic-cifar ;;
  esac
}

check_speed() {
  section "Training beside PyTorch"
  python3 -c 'import torch; print("PyTorch", torch.__version__)' || fail "python3 imports no torch: install PyTorch, or name other stages"
  python3 mpi-scripts/compare_gpu.py build/cuda/bin/train
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
