#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries every way to fail that is known, and then kills ranks and looks whether runs go on as if nothing had happened.
#   soak.sh [SECTION]...    all but in-place and in-place-gpus where none is named
#     faults     faults of one rank (faults.py); writes build/faults.csv, as docs/measurements/faults.csv
#     tests      faults of hosts, networks, files and calls, by the tests that make them
#     crowd      16 ranks on two hosts, which are namespaces of this machine: random collectives, and training
#     leftovers  kills ranks of KILLS jobs (1000), half of them under mpirun and half under Slurm, and a fifth as many without
#                training, half of these without MPI: nothing may be left
#     kills      a random rank of a supervised run every EVERY seconds, for MINUTES; all ranks of others at any instant
#     in-place   the same for runs that go on in place; BUILD, such as build/openmpi5, needs an MPI library with ULFM
#     in-place-gpus   the same on emulated GPUs, with batch norm and --shards; BUILD has the target emulated_train
#   BUILD (build/dev)   the build folder, in which the programs and tests have been built
#   MINUTES (60)        of kills and in-place, and a sixth of it of crowd
#   EVERY (15)          seconds from one kill to the next, on average
#   ONLY                faults whose name contains this
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

build=$PWD/${BUILD:-build/dev} minutes=${MINUTES:-60} every=${EVERY:-15} kills=${KILLS:-1000}
train=$build/bin/train faulty=$build/tests/train_faulty

tests() { ctest --test-dir "$build" --output-on-failure "$@"; }

section_faults() {
  [ -x "$faulty" ] || fail "$faulty is missing: build the targets train and train_faulty first"
  mpi-scripts/check/faults.py --train "$train" --faulty "$faulty" --only "${ONLY:-}" --table build/faults.csv
}

section_tests() {
  tests -R '^(hosts\.|install\.restarts|train\.(deadline|failure|input_files|checkpoint|usage)_test|state\.|backends\.rank_death_test|emulated_gpu\.(failure|injected_faults|train_faults))'
}

# weights COMMAND…: what train prints of them; its output otherwise.
weights() {
  local output
  output=$("$@" --dataset synthetic-digits --model lenet --batch 64 --shards 16 --threads 1 --save-dir none --steps "$steps" 2>&1) ||
    fail "training has failed: $output"
  grep '^weights sha256' <<<"$output"
}

section_crowd() {
  local steps=$((minutes * 40)) crowd alone
  mpi-scripts/local-cluster.sh run --per-host 8 "$build/bin/comm-check" --seconds $((minutes * 5))
  crowd=$(weights mpi-scripts/local-cluster.sh run --per-host 8 "$train")
  alone=$(weights "$train")
  [ "$crowd" = "$alone" ] || fail "16 ranks on two hosts: $crowd; one rank: $alone"
  echo "After $steps steps 16 ranks on two hosts and one rank have the same $crowd."
}

section_leftovers() {
  local half=$((kills / 2))
  mpi-scripts/check/faults.py --train "$train" --faulty "$faulty" --kills $half --at-once 2
  mpi-scripts/local-cluster.sh run --slurm mpi-scripts/check/faults.py --train "$train" --faulty "$faulty" --kills $half \
    --mpiexec "srun -N2 --mpi=pmix --kill-on-bad-exit=1"
  LOCKSTEP_KILLS=$((kills / 10)) tests --timeout $((kills + 600)) -R '^backends\.rank_death_test$'
}

section_kills() {
  mpi-scripts/check/killed_runs.py --train "$train" --every "$every" --seconds $((minutes * 60))
  LOCKSTEP_KILLS=$minutes tests --timeout $((minutes * 60 + 600)) -R '^train\.restart_test$'
}

# in_place TRAIN [OPTION...]
in_place() {
  local mpiexec
  mpiexec=$(sed -n 's/^MPIEXEC_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")
  mpi-scripts/check/killed_runs.py --in-place --train "$1" --mpiexec "$mpiexec --with-ft ulfm --oversubscribe --bind-to none" \
    --every "$every" --seconds $((minutes * 60)) "${@:2}"
}

section_in-place() { in_place "$train"; }

section_in-place-gpus() {
  EMULATED_GPU_MACHINE=$PWD/tests/emulated_gpu/machines/eight_gpus.json in_place "$build/tests/emulated_train" --least 20 --options \
    "--device cuda --dataset synthetic-digits --model resnet20 --batch 4 --shards 4 --log-every {} --save-steps 5 --keep 1 --eval-interval never"
}

[ $# -gt 0 ] || set -- faults tests crowd leftovers kills
for name; do
  [ "$(type -t "section_$name")" = function ] || fail "unknown section '$name'; there are faults, tests, crowd, leftovers, kills, in-place and in-place-gpus"
done
for name; do
  section "$name"
  "section_$name"
done
