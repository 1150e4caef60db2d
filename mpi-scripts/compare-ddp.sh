#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the speed of lockstep, two ranks of one thread, and of PyTorch's DistributedDataParallel over Gloo: total batch
# 128, in turn. PyTorch runs at its defaults, at its best (channels last, compiled), and with two threads in place of two
# ranks, which needs no sums. Prints a Markdown table; everything is kept in build/compare-ddp.
#   compare-ddp.sh [lenet] [resnet20]    both where none is named
#   ROUNDS (5)       how often each runs
#   VARIANTS (defaults channels-last compiled threads)   of PyTorch, each with all that the ones before it in this list
#                    have; `threads` is one rank of two threads
#   BIND (none)      for both: core, a core for each rank, or none, which is torchrun's default
#   STEPS, WINDOW    of a run and of one measurement in it; by model
#   PRESET           the build to use (release)
#   PYTHON           an interpreter with torch and numpy; without it torch-venv.sh makes one
# The exit code tells whether everything ran. Run it while nothing else runs.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

rounds=${ROUNDS:-5}
bind=${BIND:-none}
read -ra variants <<<"${VARIANTS:-defaults channels-last compiled threads}"
preset=${PRESET:-release}
out=build/compare-ddp
train=build/$preset/bin/train

[ $# -gt 0 ] || set -- lenet resnet20
for model in "$@"; do
  case $model in
    lenet | resnet20) ;;
    *) fail "unknown model '$model'; there are lenet and resnet20" ;;
  esac
done
for variant in "${variants[@]}"; do
  case $variant in
    defaults | channels-last | compiled) ;;
    threads) [ "$bind" = none ] || fail "BIND=core gives the one rank of two threads a single core; leave threads out" ;;
    *) fail "unknown variant '$variant'; there are defaults, channels-last, compiled and threads" ;;
  esac
done
case $bind in
  core | none) ;;
  *) fail "unknown BIND=$bind; it is core or none" ;;
esac

# The learning rate's schedule is laid out over more epochs than are run: --steps ends them.
lockstep_round() {
  mpirun -np 2 --bind-to "$bind" "$train" --dataset "$dataset" --model "$1" --batch 128 --threads 1 \
    --epochs 100 --steps "$steps" --log-every "$window" --metrics "$2" >"$out/log.txt" 2>&1 ||
    fail "train failed: $(tail -n 5 "$out/log.txt")"
}

# ddp_round MODEL VARIANT FILE
ddp_round() {
  local ranks=2 threads=1 flags=()
  case $2 in
    channels-last) flags=(--channels-last) ;;
    compiled) flags=(--channels-last --compile) ;;
    threads) flags=(--channels-last --compile) ranks=1 threads=2 ;;
  esac
  OMP_NUM_THREADS=$threads "$python" -m torch.distributed.run --standalone --nproc_per_node "$ranks" \
    mpi-scripts/ddp_baseline.py --model "$1" --batch 128 --steps "$steps" --window "$window" --bind "$bind" \
    --threads "$threads" "${flags[@]}" >"$3" 2>"$out/log.txt" ||
    # Gloo now and then aborts when its processes end; the figures have been printed by then.
    { [ -s "$3" ] && echo "DDP measured, and then crashed at its end"; } ||
    fail "DDP failed: $(tail -n 20 "$out/log.txt")"
}

compare() {
  local model=$1 dataset steps window round variant
  case $model in
    lenet) dataset=synthetic-digits steps=${STEPS:-360} window=${WINDOW:-30} ;;
    resnet20) dataset=synthetic-cifar steps=${STEPS:-90} window=${WINDOW:-10} ;;
  esac
  for ((round = 1; round <= rounds; ++round)); do
    echo "$model, round $round of $rounds"
    lockstep_round "$model" "$out/$model-lockstep-$round.jsonl"
    for variant in "${variants[@]}"; do ddp_round "$model" "$variant" "$out/$model-$variant-$round.json"; done
  done
}

python=$(mpi-scripts/torch-venv.sh)
section "Building $train"
cmake --preset "$preset"
cmake --build --preset "$preset" -j "$jobs" --target train
rm -rf "$out"
mkdir -p "$out"
section "Measuring"
for model in "$@"; do compare "$model"; done
section "lockstep and PyTorch DDP"
"$python" mpi-scripts/ddp_report.py "$out" "$bind"
