#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains with --shards on different numbers of ranks, threads and hosts, and compares the weights' SHA-256 with those of
# one rank. Prints a table; exit code 1 if any differs. Two hosts are namespaces of this machine; where these are not
# permitted it says so and leaves them out.
#   same-bits.sh              drawn data, and then pictures
#   same-bits.sh --pictures   only resnet20 on JPEGs: 1, 2 and 4 ranks, without workers and with three each, from the start and
#                             resumed in the middle of the second epoch from a checkpoint of another number of ranks
#   STEPS   of each run on drawn data (200); BATCH samples of a step (64); SHARDS (8; of pictures 4)
#   MODELS  ("lenet resnet20"); the net with every norm and dropout is trainer.shards_test's
#   FRACTION       of CIFAR-10's 50,000 training pictures (0.06; 1: all); EPOCHS (3); AUGMENT (crop,flip;
#                  another list is mosaic,affine,hsv,flip)
#   LOCKSTEP_DATA  the folder with cifar10-jpeg.tar.gz (../shared/data); without it pictures are left out
#   PRESET  the build to use (release)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release} steps=${STEPS:-200} batch=${BATCH:-64} shards=${SHARDS:-8}
train=build/$preset/bin/train
out=build/same-bits
declare -A dataset=([lenet]=synthetic-digits [resnet20]=synthetic-cifar)
options=("" "--sync-bn" "--accumulate 2 --clip-norm 1" "--sync-bn --accumulate 2 --clip-norm 1 --zero")

[[ $# -eq 0 || $1 == --pictures ]] || fail "unknown option '$1'; there is --pictures"
[[ -f build/$preset/CMakeCache.txt ]] || cmake --preset "$preset"
cmake --build "build/$preset" --target train
mkdir -p "$out"
failures=0

# A launcher in words, then threads, then options. Prints the digest.
digest() {
  local -a launcher
  read -ra launcher <<<"$1"
  local threads=$2
  shift 2
  "${launcher[@]}" "$train" --threads "$threads" "$@" >"$out/log.txt" 2>&1 ||
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

compare_drawn() {
  local has_hosts=yes model option words expected ranks threads policy
  mpi-scripts/local-cluster.sh run true || has_hosts=
  for model in ${MODELS:-lenet resnet20}; do
    for option in "${options[@]}"; do
      read -ra words <<<"--model $model --dataset ${dataset[$model]} --steps $steps --batch $batch --shards $shards --save-dir none $option"
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
          "$(digest "env OMPI_MCA_rmaps_base_mapping_policy=$policy mpi-scripts/local-cluster.sh run --per-host 2" 1 "${words[@]}")" \
          "$expected"
      done
    done
  done
  [ -n "$has_hosts" ] || echo "left out: two hosts"
}

# Runs with workers save in the middle of the second epoch, and are continued from there by other numbers of ranks.
compare_pictures() {
  local data=$out/pictures epochs=${EPOCHS:-3} samples middle words expected found ranks workers from saving
  mpi-scripts/bench/pictures_subset.py "$(cifar10_jpegs)" "${FRACTION:-0.06}" "$data"
  samples=$(find "$data/train" -name '*.jpg' | wc -l)
  middle=$((samples * 3 / 2 / batch + 1))
  words=(--data "$data" --model resnet20 --augment "${AUGMENT:-crop,flip}" --epochs "$epochs" --batch "$batch" --shards "${SHARDS:-4}")
  rm -rf "$out"/run-*
  expected=
  for ranks in 1 2 4; do
    for workers in 0 3; do
      saving=(--save-dir none)
      [ "$workers" = 0 ] || saving=(--save-dir "$out/run-$ranks" --save-steps "$middle" --keep 100)
      found=$(digest "mpirun --oversubscribe --bind-to none -np $ranks" 1 "${words[@]}" --workers "$workers" "${saving[@]}")
      [ -n "$expected" ] || { expected=$found && printf 'resnet20 on %s JPEGs, %s epochs: %s\n' "$samples" "$epochs" "$expected"; }
      compare "$ranks ranks, $workers workers" "$found" "$expected"
    done
  done
  while read -r ranks from workers; do
    found=$(digest "mpirun --oversubscribe --bind-to none -np $ranks" 1 --workers "$workers" --save-dir none \
      --resume "$(printf '%s/run-%s/checkpoints/step-%08d' "$out" "$from" "$middle")" </dev/null)
    compare "$ranks ranks, $workers workers, after step $middle of $from" "$found" "$expected"
  done <<<$'1 2 3\n2 4 0\n4 1 3'
}

[ $# -gt 0 ] || compare_drawn
if [ -f "${LOCKSTEP_DATA:-../shared/data}/cifar10-jpeg.tar.gz" ]; then
  compare_pictures
else
  echo "left out: pictures, because ${LOCKSTEP_DATA:-../shared/data} has no cifar10-jpeg.tar.gz"
fi
exit $((failures > 0))
