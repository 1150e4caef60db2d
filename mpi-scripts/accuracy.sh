#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains lenet on MNIST on two ranks, three epochs, with the default seed and two others. Each run must classify at
# least 99.0 % of the test images correctly. Prints a table; exit code 1 if a run does not, 77 without the data.
#   accuracy.sh --compress    the same seeds with gradients as float32, bf16 and fp16 on the wire: a run must come within
#                             0.3 points of the float32 run of its seed
#   LOCKSTEP_DATA  the folder that holds mnist/ (../shared/data)
#   PRESET         the build to use (release)
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

data_dir=${LOCKSTEP_DATA:-../shared/data}/mnist
preset=${PRESET:-release}
train=build/$preset/bin/train
out=build/accuracy
bound=0.990
seeds=(default 2 3)

case ${1:-} in
  '') compare=bound ;;
  --compress) compare=formats ;;
  *) fail "unknown option '$1'; there is --compress" ;;
esac

if [ ! -d "$data_dir" ]; then
  echo "skipped: there is no folder $data_dir with the MNIST files; LOCKSTEP_DATA can name the one that holds mnist/"
  exit 77
fi

percent() { awk "BEGIN { printf \"%.2f %%\", 100 * $1 }"; }

# The value of a key in the line of an event.
field() { sed -n "s/.*\"event\":\"$2\".*\"$3\":\([0-9.]*\).*/\1/p" "$1"; }

# Arguments after the first go to train.
train_once() {
  local metrics=$1
  shift
  mpirun -np 2 "$train" --dataset mnist --data-dir "$data_dir" --model lenet --epochs 3 "$@" --metrics "$metrics" \
    >"$out/log.txt" 2>&1 || fail "train failed: $(tail -n 5 "$out/log.txt")"
}

section "Building $train"
cmake --preset "$preset"
cmake --build --preset "$preset" -j "$jobs" --target train
rm -rf "$out"
mkdir -p "$out"

# Trains with a seed and further options; prints the accuracy on the test images.
accuracy_of() {
  local seed=$1 metrics=$out/$2.jsonl
  shift 2
  [ "$seed" = default ] || set -- --seed "$seed" "$@"
  train_once "$metrics" "$@"
  local accuracy
  accuracy=$(field "$metrics" end final_accuracy)
  [ -n "$accuracy" ] || fail "training ended without an accuracy in $metrics"
  echo "$accuracy"
}

holds() { awk "BEGIN { exit !($1) }"; }

against_the_bound() {
  section "lenet on $data_dir, 3 epochs on 2 ranks"
  printf '| seed | test accuracy | at least %s |\n|---|---|---|\n' "$(percent $bound)"
  local seed accuracy verdict result=0
  for seed in "${seeds[@]}"; do
    accuracy=$(accuracy_of "$seed" "seed-$seed")
    verdict=yes
    holds "$accuracy >= $bound" || { verdict=no && result=1; }
    printf '| %s | %s | %s |\n' "$(field "$out/seed-$seed.jsonl" start seed)" "$(percent "$accuracy")" "$verdict"
  done
  return $result
}

against_float32() {
  section "lenet on $data_dir, 3 epochs on 2 ranks, gradients compressed on the wire"
  printf '| seed | wire | test accuracy | points from float32 | at most 0.3 |\n|---|---|---|---|---|\n'
  local seed format exact accuracy difference verdict result=0
  for seed in "${seeds[@]}"; do
    exact=$(accuracy_of "$seed" "seed-$seed-none")
    printf '| %s | float32 | %s | | |\n' "$(field "$out/seed-$seed-none.jsonl" start seed)" "$(percent "$exact")"
    for format in bf16 fp16; do
      accuracy=$(accuracy_of "$seed" "seed-$seed-$format" --compress "$format")
      difference=$(awk "BEGIN { printf \"%.2f\", 100 * ($accuracy - $exact) }")
      verdict=yes
      holds "$difference <= 0.3 && $difference >= -0.3" || { verdict=no && result=1; }
      printf '| | %s | %s | %s | %s |\n' "$format" "$(percent "$accuracy")" "$difference" "$verdict"
    done
  done
  return $result
}

case $compare in
  bound) against_the_bound ;;
  formats) against_float32 ;;
esac
