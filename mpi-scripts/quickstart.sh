#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From fresh sources to a trained network: installs the packages, builds `train` and nothing else, and trains a small CNN on two
# MPI ranks. Fails if the network has not learned. BUILD_JOBS limits the compiler processes.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The first of the two epochs ends with 96.4 % already; a network that has learned nothing has 10 %.
readonly wanted=0.95

mpi-scripts/install-deps.sh --build-only

section "Building build/quickstart"
cmake --preset quickstart
cmake --build --preset quickstart -j "$jobs" --target train

section "Training lenet on the built-in digits, on 2 ranks"
folder=build/quickstart/run
rm -rf "$folder"
threads=$(($(nproc) / 2))
# --oversubscribe: also on a machine with one core. --bind-to none: so that a rank may use more than one.
mpirun -np 2 --oversubscribe --bind-to none build/quickstart/bin/train \
  --dataset synthetic-digits --model lenet --epochs 2 --threads $((threads > 0 ? threads : 1)) --save-dir "$folder"

metrics=$folder/metrics.jsonl
accuracy=$(sed -n 's/.*"event":"epoch".*"val_accuracy":\([0-9.]*\).*/\1/p' "$metrics" | tail -n 1)
[ -n "$accuracy" ] || fail "training ended without an accuracy in $metrics"
percent=$(awk "BEGIN { printf \"%.2f %%\", 100 * $accuracy }")
awk "BEGIN { exit !($accuracy >= $wanted) }" ||
  fail "only $percent of the test images are classified correctly, less than $wanted: something is wrong; see $metrics"
section "Done: $percent of the test images are classified correctly"
cat <<END
  program   build/quickstart/bin/train; explains its options with --help
  model     $folder/checkpoints/last/model.safetensors; PyTorch loads it
  metrics   $metrics, one JSON object per line
  next      cmake --preset release && cmake --build --preset release
            ./mpi-scripts/test.sh
END
onednn=$(build/quickstart/bin/train --version | sed -n 's/^oneDNN //p')
if newer_onednn_helps /proc/cpuinfo "$onednn"; then
  cat <<END
  faster    this processor has AMX, for which oneDNN 3 has newer kernels than oneDNN $onednn. --precision bf16 may be faster with it:
            ./mpi-scripts/bench/compare-onednn.sh lenet:bf16 resnet20:bf16 resnet18:bf16
END
fi
