#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh clone to a trained network: installs the packages, builds, trains a small CNN on two MPI ranks.
# BUILD_JOBS limits the compiler processes.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mpi-scripts/install-deps.sh --build-only

section "Building build/release"
cmake --preset release
cmake --build --preset release -j "$jobs" --target train comm-bench topo

section "Training lenet on the built-in digits, on 2 ranks"
metrics=runs/quickstart/metrics.jsonl
mkdir -p "${metrics%/*}"
rm -f "$metrics"
threads=$(($(nproc) / 2))
# --oversubscribe: also on a machine with one core. --bind-to none: so that a rank may use more than one.
mpirun -np 2 --oversubscribe --bind-to none build/release/bin/train \
  --dataset synthetic-digits --model lenet --epochs 2 --threads $((threads > 0 ? threads : 1)) --metrics "$metrics"

accuracy=$(sed -n 's/.*"event":"epoch".*"val_accuracy":\([0-9.]*\).*/\1/p' "$metrics" | tail -n 1)
[ -n "$accuracy" ] || fail "training ended without an accuracy in $metrics"
section "Done: $(awk "BEGIN { printf \"%.2f\", 100 * $accuracy }") % of the test images are classified correctly"
cat <<END
  programs  build/release/bin/{train,comm-bench,topo}; each explains its options with --help
  metrics   $metrics, one JSON object per line
  next      mpirun -np 2 build/release/bin/train --dataset mnist --data-dir DIR --model lenet --epochs 3
            ./mpi-scripts/test.sh
END
