#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures how long training takes to 99 % of MNIST's test images with lenet, beside PyTorch with the same recipe: SGD, batches
# of 128, a cosine over three epochs. Each program runs as two ranks of one thread and as one of two (PyTorch eager, channels
# last, fused SGD), in turn, every second round in the opposite order, and its faster way counts. The time is that of training
# and evaluation, without the start of the programs. Prints a Markdown table; the logs are kept in build/time-to-accuracy.
#   ROUNDS (3)      how often each runs, each time with another seed
#   ACCURACY (0.99)
#   EPOCHS (3)      of the schedule
#   PRESET          the build to use (release)
#   PYTHON          an interpreter with torch, torchvision, safetensors and numpy; without it torch-venv.sh makes one
#   LOCKSTEP_DATA   the folder that holds mnist/ (../shared/data)
# Run it while nothing else runs. For CIFAR-10, docs/workloads.md compares epochs and their times.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release} rounds=${ROUNDS:-3} accuracy=${ACCURACY:-0.99}
data=${LOCKSTEP_DATA:-../shared/data}/mnist
out=build/time-to-accuracy
[ -d "$data" ] || fail "$data does not exist; set LOCKSTEP_DATA to the folder that holds mnist/"

section "Building train"
python=$(mpi-scripts/parity/torch-venv.sh torchvision safetensors)
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target train
rm -rf "$out"
mkdir -p "$out"

# run_lockstep RANKSxTHREADS ROUND
run_lockstep() {
  mpirun -np "${1%x*}" --bind-to none "build/$preset/bin/train" --dataset mnist --data-dir "$data" --model lenet --batch 128 --lr-schedule cosine --warmup 0 \
    --epochs "${EPOCHS:-3}" --augment none --threads "${1#*x}" --seed "$2" --save-dir "$out/run" --metrics "$out/lockstep-$1-$2.jsonl" >"$out/log.txt" 2>&1 ||
    fail "train failed: $(tail -n 5 "$out/log.txt")"
}
# run_pytorch RANKSxTHREADS ROUND. Any run of lockstep's holds the recipe.
run_pytorch() {
  "$python" mpi-scripts/parity/cifar10-pytorch.py train "$out/run" "$data" "$2" "$out/pytorch-$1-$2.jsonl" --ranks "${1%x*}" --threads "${1#*x}" \
    >"$out/log.txt" 2>&1 || fail "PyTorch failed: $(tail -n 5 "$out/log.txt")"
}

section "Measuring"
for ((round = 1; round <= rounds; ++round)); do
  echo "round $round of $rounds"
  turns=("lockstep 2x1" "pytorch 2x1" "lockstep 1x2" "pytorch 1x2")
  [ $((round % 2)) = 1 ] || turns=("pytorch 1x2" "lockstep 1x2" "pytorch 2x1" "lockstep 2x1")
  for turn in "${turns[@]}"; do "run_${turn% *}" "${turn#* }" "$round"; done
done
section "Time to accuracy"
python3 mpi-scripts/bench/time_to_accuracy.py "$out" "$accuracy"
