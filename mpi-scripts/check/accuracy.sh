#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains lenet on MNIST on two ranks, three epochs, with the default seed and two others. Each run must classify at
# least 99.0 % of the test images correctly. Prints a table; exit code 1 if a bound is broken, 77 without the data.
#   accuracy.sh --config      the same seeds with configs/mnist-lenet.conf, ten epochs: at least 99.3 %
#   accuracy.sh --compress    the same seeds with gradients as float32, bf16 and fp16 on the wire: a run must come within
#                             0.3 points of the float32 run of its seed
#   accuracy.sh --against "OPTIONS" [lenet | resnet20]
#                             with these options of train and without, seed by seed: the mean over seeds must be at most
#                             so many points lower. lenet on MNIST: 0.1 points, 5 seeds, 3 epochs. resnet20 on CIFAR-10:
#                             0.5 points, 3 seeds, 10 epochs, which are 6 runs of a quarter of an hour on two cores
#   BASE            options of the runs beside which those of --against are seen (none): BASE=--exact with --against ""
#                   holds Winograd's convolutions to direct ones
#   SEEDS, EPOCHS, WITHIN   of --against, where not as above; WITHIN in points
#   OPTIONS         further options of train in both, as "--steps 100"
#   LOCKSTEP_DATA   the folder that holds mnist/ (../shared/data)
#   CIFAR10         the folder with the six files that mpi-scripts/cifar10.py makes (cifar10/ in LOCKSTEP_DATA)
#   PRESET          the build to use (release)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

data_dir=${LOCKSTEP_DATA:-../shared/data}/mnist
preset=${PRESET:-release}
train=build/$preset/bin/train
out=build/accuracy
bound=0.990
seeds=(default 2 3)
model=lenet dataset=mnist epochs=3 within=0.1
read -ra base <<<"${BASE:-}"
read -ra options <<<"${OPTIONS:-}"
configuration=()

case ${1:-} in
  '') compare=bound ;;
  --config)
    compare=bound bound=0.993 epochs=10
    configuration=(--config configs/mnist-lenet.conf)
    ;;
  --compress) compare=formats ;;
  --against)
    compare=options
    [ $# -ge 2 ] || fail '--against needs options of train in one word, as --against "--compress bf16"'
    read -ra against <<<"$2"
    model=${3:-lenet} seeds=(1 2 3 4 5)
    ;;
  *) fail "unknown option '$1'; there are --config, --compress and --against" ;;
esac
case $model in
  lenet) ;;
  resnet20)
    dataset=cifar10 seeds=(1 2 3) epochs=10 within=0.5
    data_dir=${CIFAR10:-${LOCKSTEP_DATA:-../shared/data}/cifar10}
    ;;
  *) fail "unknown model '$model'; there are lenet and resnet20" ;;
esac
if [ "$compare" = options ]; then
  read -ra seeds <<<"${SEEDS:-${seeds[*]}}"
  epochs=${EPOCHS:-$epochs}
  within=${WITHIN:-$within}
fi

if [ ! -d "$data_dir" ]; then
  echo "skipped: there is no folder $data_dir with the files of $dataset; LOCKSTEP_DATA, or CIFAR10, can name another"
  exit 77
fi

percent() { awk "BEGIN { printf \"%.2f %%\", 100 * $1 }"; }

# The value of a key in the line of an event.
field() { sed -n "s/.*\"event\":\"$2\".*\"$3\":\([0-9.]*\).*/\1/p" "$1"; }

# Arguments after the first go to train.
train_once() {
  local metrics=$1
  shift
  mpirun -np 2 "$train" --dataset "$dataset" --data-dir "$data_dir" --model "$model" --epochs "$epochs" "$@" \
    --save-dir none --metrics "$metrics" >"$out/log.txt" 2>&1 || fail "train failed: $(tail -n 5 "$out/log.txt")"
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
  section "lenet on $data_dir, $epochs epochs on 2 ranks ${configuration[*]}"
  printf '| seed | test accuracy | at least %s |\n|---|---|---|\n' "$(percent $bound)"
  local seed accuracy verdict result=0
  for seed in "${seeds[@]}"; do
    accuracy=$(accuracy_of "$seed" "seed-$seed" "${configuration[@]}")
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

# Means over the seeds decide, since one seed is off from another by more than what is looked for. What of the difference
# is chance is told by its standard error.
against_base() {
  local seed first second pairs=()
  section "$model on $data_dir, $epochs epochs on 2 ranks ${options[*]}"
  printf '| seed | %s | %s | points |\n|---|---|---|---|\n' "${base[*]:-as it is}" "${against[*]:-as it is}"
  for seed in "${seeds[@]}"; do
    first=$(accuracy_of "$seed" "seed-$seed-base" "${options[@]}" "${base[@]}")
    second=$(accuracy_of "$seed" "seed-$seed-against" "${options[@]}" "${against[@]}")
    pairs+=("$first $second")
    printf '| %s | %s | %s | %+.2f |\n' "$seed" "$(percent "$first")" "$(percent "$second")" \
      "$(awk "BEGIN { print 100 * ($second - $first) }")"
  done
  printf '%s\n' "${pairs[@]}" | awk -v within="$within" '
    { first += $1; second += $2; sum += $2 - $1; squares += ($2 - $1) ^ 2 }
    END {
      mean = 100 * sum / NR
      variance = NR > 1 ? (squares - sum * sum / NR) / (NR - 1) / NR : 0
      printf "| mean | %.2f %% | %.2f %% | %+.3f ± %.3f |\n", 100 * first / NR, 100 * second / NR, mean,
             100 * sqrt(variance > 0 ? variance : 0)
      held = mean >= -within
      printf "\nmean at most %s points lower: %s\n", within, held ? "yes" : "no"
      exit !held
    }'
}

case $compare in
  bound) against_the_bound ;;
  formats) against_float32 ;;
  options) against_base ;;
esac
