#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On a machine with a GPU: builds the preset cuda, runs the tests that need a GPU, and notes what they ran on.
#   gpu-check.sh [--out FILE]      FILE gets everything that is printed (default build/gpu-check.txt)
# Nothing is installed. Where the packages of install-deps.sh are not, a folder made by gpu-carry.sh takes their place:
#   LOCKSTEP_PREFIX=carry/usr mpi-scripts/gpu-check.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out=build/gpu-check.txt
case ${1:-} in
  --out) out=${2:?--out needs a file} ;;
  "") ;;
  *) fail "unknown option '$1'; usage: gpu-check.sh [--out FILE]" ;;
esac
mkdir -p "$(dirname "$out")"

# Packages that gpu-carry.sh fetched, unpacked beside them; and the names that installing would have given Open MPI's tools.
unpack() {
  local root=$1 package tool
  for package in "$root"/packages/*.deb; do dpkg -x "$package" "$root"; done
  for tool in mpicc mpicxx mpirun mpiexec; do ln -sf "$tool.openmpi" "$root/usr/bin/$tool"; done
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
  section "Build (preset cuda)"
  mkdir -p build/cuda
  cmake --preset cuda | tee build/cuda/configure.log
  cmake --build --preset cuda -j "$jobs"
  describe
  # Where the loader does not know the NCCL that was found, lockstep is told.
  local nccl
  nccl=$(sed -n 's/^NCCL_LIBRARY:[A-Z]*=\(\/.*\)/\1/p' build/cuda/CMakeCache.txt)
  [ -z "$nccl" ] || export LOCKSTEP_NCCL_LIBRARY=${LOCKSTEP_NCCL_LIBRARY:-$nccl}
  # None may be skipped for want of a GPU.
  section "Whether CUDA and NCCL do what their emulation takes from the documents"
  LOCKSTEP_REQUIRE=gpu,cuda ctest --preset gpu -V -R semantics
  section "Tests that need a GPU"
  LOCKSTEP_REQUIRE=gpu,cuda ctest --preset gpu -V -E semantics
  section "comm-bench on the GPU"
  local algorithm
  for algorithm in auto ring tree tree-order; do  # a process has one of NCCL's own
    build/cuda/bin/comm-bench --device cuda --algorithm "$algorithm" --max 16M --seconds 0.1
  done
}

[ -z "${LOCKSTEP_PREFIX:-}" ] || use_prefix "$LOCKSTEP_PREFIX"
check 2>&1 | tee "$out"
