#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that has to hold before a change goes in.
#   test.sh [all | deps | format | build | tidy | cuda | docs | unit]...     (lint = format, build, tidy)
# BUILD_JOBS limits the compiler processes. CTest's summary comes last.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

deps() { mpi-scripts/install-deps.sh; }

format() {
  section "clang-format, shellcheck, licence"
  git ls-files '*.hpp' '*.cpp' '*.cu' '*.cuh' | xargs clang-format --dry-run -Werror
  shellcheck .ci/run mpi-scripts/*.sh
  local unlicensed
  unlicensed=$(git ls-files '*.hpp' '*.cpp' '*.cu' '*.cuh' '*.in' '*.cmake' '*.sh' '*.py' '*CMakeLists.txt' .ci/run |
    xargs grep -L 'SPDX-License-Identifier: Apache-2.0' || [ $? = 123 ])
  [ -z "$unlicensed" ] || fail "no line 'SPDX-License-Identifier: Apache-2.0' in: $unlicensed"
}

build() {
  section "Build, warnings are errors (preset dev)"
  cmake --preset dev
  cmake --build --preset dev -j "$jobs"
}

# Checks the library and the programs, not the tests, which would take twice as long again; and headers through the files that include them. The build comes first: it makes
# compile_commands.json. Kernels for GPUs are left out: clang does not take nvcc's options.
tidy() {
  section "clang-tidy"
  sed -n 's/^  "file": "\(.*\)",\{0,1\}$/\1/p' build/dev/compile_commands.json | grep -v '/tests/\|/build/\|\.cu$' | sort -u |
    xargs -P "$jobs" -n 1 mpi-scripts/tidy-one.sh
}

cuda() {
  section "CUDA build (preset cuda)"
  local why
  [ -f build/dev/CMakeCache.txt ] || cmake --preset dev
  why=$(sed -n 's/^LOCKSTEP_CUDA_MISSING:INTERNAL=//p' build/dev/CMakeCache.txt)
  if [ -n "$why" ]; then
    echo "Skipped: $why"
  else
    cmake --preset cuda
    # What no other build has linked: the NCCL back end, and the programs with it. And the kernels, where there is a compiler.
    cmake --build --preset cuda -j "$jobs" --target backends_nccl_test kernels_canonical_fold_gpu_test train topo comm-bench
  fi
}

docs() {
  section "Documentation (doxygen, warnings are errors)"
  mkdir -p build/doc
  doxygen Doxyfile
  echo "build/doc/html/index.html"
}

unit() {
  section "Tests (preset dev)"
  ctest --preset dev -j "$jobs"
}

# No && between stages: in such a list the shell would not stop at a stage's own failures.
lint() {
  format
  build
  tidy
}
all() {
  deps
  format
  build
  tidy
  cuda
  docs
  unit
}

[ $# -gt 0 ] || set -- all
for stage in "$@"; do
  case $stage in
    all | deps | format | build | tidy | lint | cuda | docs | unit) ;;
    *) fail "unknown stage '$stage'; the stages are all deps format build tidy lint cuda docs unit" ;;
  esac
done
for stage in "$@"; do "$stage"; done
