#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares models with PyTorch: reference operators in float64 over a training run, oneDNN in float32 gradient by
# gradient. Prints a table; the exit code is 1 if a bound is broken.
#   parity.sh [MODEL...]            all where none is named
#   parity.sh --record [MODEL...]   writes down PyTorch's numbers for a shorter comparison, which is a test
#   PYTHON  an interpreter with torch and numpy; without it torch-venv.sh makes one
#   PRESET  the build to use (release); STEPS (100), BATCH (8) and LR (0.01) of the training runs. The deeper a network,
#           the faster rounding errors grow from step to step, in PyTorch as in lockstep; lower rates keep them small.
#   IMAGE   "channels height width", where not 1 28 28 for lenet, 3 32 32 for resnet20 and else the model's example
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${PRESET:-release}
steps=${STEPS:-100}
batch=${BATCH:-8}
rate=${LR:-0.01}
gradient_steps=20
# Where rounding flips the sign of a ReLU's input, gradients differ by 1e-3 in any float32, and the more ReLUs, the more
# flips: of 60 steps (three seeds) of resnet20 13 have one at batch 8, with lockstep as with PyTorch, 23 and 21 at batch
# 16, 34 and 32 at batch 32. The median over steps measures rounding only while most steps have none; elsewhere it is
# chance.
gradient_batch=8
out=build/parity

python=$(mpi-scripts/torch-venv.sh)
[[ -d build/$preset ]] || cmake --preset "$preset"
cmake --build "build/$preset" --target nn_parity
parity=build/$preset/tests/nn_parity
compare=mpi-scripts/parity-pytorch.py

if [[ ${1:-} == --record ]]; then
  exec "$python" "$compare" record "$parity" tests/nn/pytorch_models.json "${@:2}"
fi

image_of() {
  case ${IMAGE:-$1} in
    lenet) echo --image 1 28 28 ;;
    resnet20) echo --image 3 32 32 ;;
    "$1") ;;
    *) echo --image "$IMAGE" ;;
  esac
}

mapfile -t models < <("$parity" --list)
[[ $# -eq 0 ]] || models=("$@")
result=0
for model in "${models[@]}"; do
  run=$out/$model
  read -ra image < <(image_of "$model") || true
  common=(--model "$model" "${image[@]}")
  "$parity" "${common[@]}" --steps "$steps" --batch "$batch" --lr "$rate" --weights-every 5 --out "$run/train"
  "$python" "$compare" train "$run/train" || result=1
  common+=(--steps "$gradient_steps" --batch "$gradient_batch")
  "$parity" "${common[@]}" --lr "$rate" --out "$run/weights"
  "$parity" "${common[@]}" --weights-from "$run/weights" --out "$run/exact"
  "$parity" "${common[@]}" --weights-from "$run/weights" --ops onednn --precision float32 --out "$run/onednn"
  "$python" "$compare" gradients "$run/weights" "$run/exact" "$run/onednn" || result=1
  rm -rf "$run"
done
exit $result
