#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that has to hold before a change goes in.
#   test.sh [all | deps | format | build | tidy | tidy-full | cuda | docs | unit]...     (lint = format, build, tidy)
# all is every stage but tidy-full, clang's static analyzer, which belongs into a weekly run. BUILD_JOBS limits the compiler
# processes. CTest's summary comes last.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

deps() { mpi-scripts/install-deps.sh; }

format() {
  section "clang-format, shellcheck, licence"
  local formatter
  formatter=$(pinned clang-format)
  files '*.hpp' '*.cpp' '*.cu' '*.cuh' | xargs -0 "$formatter" --dry-run -Werror
  shellcheck .ci/run mpi-scripts/*.sh
  local unlicensed
  unlicensed=$(files '*.hpp' '*.cpp' '*.cu' '*.cuh' '*.in' '*.cmake' '*.sh' '*.py' '*CMakeLists.txt' .ci/run |
    xargs -0 grep -L 'SPDX-License-Identifier: Apache-2.0' || [ $? = 123 ])
  [ -z "$unlicensed" ] || fail "no line 'SPDX-License-Identifier: Apache-2.0' in: $unlicensed"
}

build() {
  section "Build, warnings are errors (preset dev)"
  cmake --preset dev
  cmake --build --preset dev -j "$jobs"
}

# These read the commands that compile each file by itself, which there are once CMake has been run.
tidy() {
  section "clang-tidy"
  cmake --preset dev >/dev/null
  mpi-scripts/tidy.py
}
tidy-full() {
  section "clang-tidy and clang's static analyzer"
  cmake --preset dev >/dev/null
  mpi-scripts/tidy.py --full
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
    all | deps | format | build | tidy | tidy-full | lint | cuda | docs | unit) ;;
    *) fail "unknown stage '$stage'; the stages are all deps format build tidy tidy-full lint cuda docs unit" ;;
  esac
done
for stage in "$@"; do "$stage"; done
