#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries every way to fail that is known, and then kills ranks of a supervised run for a while.
#   soak.sh [--minutes N] [--only TEXT] [--in-place SECONDS] [BUILD]
#     --minutes N   how long ranks are killed (60)
#     --only TEXT   faults whose name contains this, and no killing
#     --in-place SECONDS   nothing but runs that go on in place, of which a rank is killed every so many seconds; BUILD, such
#                   as build/openmpi5, needs an MPI library with ULFM
#   BUILD           the build folder (build/dev), in which train and the tests have been built
# It writes what it saw to build/faults.md, a table as in docs/faults.md.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

minutes=60
only=
in_place=
while [[ ${1:-} == --* ]]; do
  [ $# -ge 2 ] || fail "usage: soak.sh [--minutes N] [--only TEXT] [--in-place SECONDS] [BUILD]"
  case $1 in
    --minutes) minutes=$2 ;;
    --only) only=$2 ;;
    --in-place) in_place=$2 ;;
    *) fail "unknown option '$1'" ;;
  esac
  shift 2
done
build=${1:-build/dev}
if [ -n "$in_place" ]; then
  section "Killing a random rank every $in_place s, for $minutes minutes; the others go on in place"
  mpiexec=$(sed -n 's/^MPIEXEC_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")
  mpi-scripts/killed_runs.py --in-place --train "$PWD/$build/bin/train" --mpiexec "$mpiexec --with-ft ulfm --oversubscribe --bind-to none" \
    --every "$in_place" --seconds $((minutes * 60))
  exit 0
fi
[ -x "$build/tests/train_faulty" ] || fail "$build/tests/train_faulty is missing: build the targets train and train_faulty in $build first"

section "Faults of one rank"
mpi-scripts/faults.py --train "$PWD/$build/bin/train" --faulty "$PWD/$build/tests/train_faulty" --only "$only" --table build/faults.md
[ -z "$only" ] || exit 0

section "Faults of hosts, networks, files and calls, by the tests that make them"
ctest --test-dir "$build" --output-on-failure -R '^(hosts\.|install\.restarts|train\.(deadline|failure|input_files|checkpoint|usage)_test|state\.|backends\.rank_death_test|emulated_gpu\.(failure|injected_faults|train_faults))'

section "Killing a random rank every 15 s, for $minutes minutes"
mpi-scripts/killed_runs.py --train "$PWD/$build/bin/train" --every 15 --seconds $((minutes * 60))

section "Killing all ranks at any instant, 100 times"
LOCKSTEP_KILLS=100 ctest --test-dir "$build" --output-on-failure --timeout 3600 -R '^train\.restart_test$'
