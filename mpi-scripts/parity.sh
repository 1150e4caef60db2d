#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares both models with PyTorch: reference operators in float64 over a training run, oneDNN in float32 gradient by
# gradient. Prints a table; the exit code is 1 if a bound is broken.
#   PYTHON  an interpreter with torch and numpy; without it torch-venv.sh makes one
#   PRESET  the build to use (release); STEPS (100) and BATCH (8) of the training runs
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${PRESET:-release}
steps=${STEPS:-100}
batch=${BATCH:-8}
gradient_steps=20
# Where rounding flips the sign of a ReLU's input, gradients differ by 1e-3 in any float32, and the more ReLUs, the more
# flips: of 60 steps (three seeds) 13 have one at batch 8, with lockstep as with PyTorch, 23 and 21 at batch 16, 34 and
# 32 at batch 32. The median over steps measures rounding only while most steps have none; elsewhere it is chance.
gradient_batch=8
out=build/parity

python=$(mpi-scripts/torch-venv.sh)
[[ -d build/$preset ]] || cmake --preset "$preset"
cmake --build "build/$preset" --target nn_parity
parity=build/$preset/tests/nn_parity
compare=mpi-scripts/parity-pytorch.py

result=0
for model in lenet resnet20; do
  run=$out/$model
  "$parity" --model "$model" --steps "$steps" --batch "$batch" --lr 0.01 --weights-every 5 --out "$run/train"
  "$python" "$compare" train "$run/train" || result=1
  common=(--model "$model" --steps "$gradient_steps" --batch "$gradient_batch")
  "$parity" "${common[@]}" --lr 0.01 --out "$run/weights"
  "$parity" "${common[@]}" --weights-from "$run/weights" --out "$run/exact"
  "$parity" "${common[@]}" --weights-from "$run/weights" --ops onednn --precision float32 --out "$run/onednn"
  "$python" "$compare" gradients "$run/weights" "$run/exact" "$run/onednn" || result=1
done
rm -rf "$out"
exit $result
