#!/usr/bin/env bash
# Trains lenet on MNIST on two ranks, three epochs, with the default seed and two others. Each run must classify at
# least 99.0 % of the test images correctly. Prints a table; exit code 1 if a run does not, 77 without the data.
#   LOCKSTEP_DATA  the folder that holds mnist/ (../shared/data)
#   PRESET         the build to use (release)
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

data_dir=${LOCKSTEP_DATA:-../shared/data}/mnist
preset=${PRESET:-release}
train=build/$preset/bin/train
out=build/accuracy
bound=0.990

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

section "lenet on $data_dir, 3 epochs on 2 ranks"
printf '| seed | test accuracy | at least %s |\n|---|---|---|\n' "$(percent $bound)"
result=0
for seed in default 2 3; do
  metrics=$out/seed-$seed.jsonl
  options=()
  [ "$seed" = default ] || options=(--seed "$seed")
  train_once "$metrics" "${options[@]}"
  accuracy=$(field "$metrics" end final_accuracy)
  [ -n "$accuracy" ] || fail "training ended without an accuracy in $metrics"
  verdict=yes
  awk "BEGIN { exit !($accuracy >= $bound) }" || { verdict=no && result=1; }
  printf '| %s | %s | %s |\n' "$(field "$metrics" start seed)" "$(percent "$accuracy")" "$verdict"
done
exit $result
