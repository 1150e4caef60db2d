#!/usr/bin/env bash
# Builds with another compiler or MPI library and runs the tests.
#   other-toolchains.sh [clang] [mpich]    both where none is named
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

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

[ $# -gt 0 ] || set -- clang mpich
for toolchain in "$@"; do
  case $toolchain in
    clang | mpich) "$toolchain" ;;
    *) fail "unknown toolchain '$toolchain'; there are clang and mpich" ;;
  esac
done
