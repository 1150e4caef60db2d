#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains with --shards on different numbers of ranks, threads and hosts, and compares the weights' SHA-256 with those of
# one rank. Prints a table; exit code 1 if any differs. Two hosts are namespaces of this machine; where these are not
# permitted it says so and leaves them out.
#   STEPS   of each run (200); BATCH samples of a step (64); SHARDS (8)
#   MODELS  ("lenet resnet20"); the net with every norm and dropout is trainer.shards_test's
#   PRESET  the build to use (release)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release} steps=${STEPS:-200} batch=${BATCH:-64} shards=${SHARDS:-8}
train=build/$preset/bin/train
out=build/same-bits
declare -A dataset=([lenet]=synthetic-digits [resnet20]=synthetic-cifar)
options=("" "--sync-bn" "--accumulate 2 --clip-norm 1" "--sync-bn --accumulate 2 --clip-norm 1 --zero")

[[ -d build/$preset ]] || cmake --preset "$preset"
cmake --build "build/$preset" --target train
mkdir -p "$out"
failures=0

# A launcher in words, then threads, then options. Prints the digest.
digest() {
  local -a launcher
  read -ra launcher <<<"$1"
  local threads=$2
  shift 2
  "${launcher[@]}" "$train" --threads "$threads" --save-dir none "$@" >"$out/log.txt" 2>&1 ||
    { tail -n 5 "$out/log.txt" >&2 && fail "train failed: ${launcher[*]}"; }
  sed -n '$s/^weights sha256 //p' "$out/log.txt"
}

compare() {
  local what=$1 found=$2 expected=$3
  if [ "$found" = "$expected" ]; then
    printf '  %-38s same\n' "$what"
  else
    printf '  %-38s %s\n' "$what" "DIFFERS: $found"
    failures=$((failures + 1))
  fi
}

has_hosts=yes
mpi-scripts/local-cluster.sh run true || has_hosts=

for model in ${MODELS:-lenet resnet20}; do
  for option in "${options[@]}"; do
    read -ra words <<<"--model $model --dataset ${dataset[$model]} --steps $steps --batch $batch --shards $shards $option"
    expected=$(digest "mpirun -np 1" 1 "${words[@]}")
    printf '%s, %s steps of %s, %s shards %s\n  %s\n' "$model" "$steps" "$batch" "$shards" "$option" "$expected"
    for ranks in 2 3 4 5 6 8; do
      compare "$ranks ranks" "$(digest "mpirun --oversubscribe -np $ranks" 1 "${words[@]}")" "$expected"
    done
    for threads in 2 3; do
      for ranks in 1 2; do
        compare "$ranks ranks × $threads threads" \
          "$(digest "mpirun --oversubscribe --bind-to none -np $ranks" "$threads" "${words[@]}")" "$expected"
      done
    done
    [ -n "$has_hosts" ] || continue
    for policy in core node; do
      compare "2 hosts × 2 ranks, by $policy" \
        "$(digest "env OMPI_MCA_rmaps_base_mapping_policy=$policy mpi-scripts/local-cluster.sh run --per-host 2" 1 "${words[@]}")" "$expected"
    done
  done
done
[ -n "$has_hosts" ] || echo "left out: two hosts"
exit $((failures > 0))
