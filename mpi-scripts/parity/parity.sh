#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares models with PyTorch: the reference operators in float64 over a training run, and how far float32 gradients of
# oneDNN, with --exact and without, are from float64 beside PyTorch's own. Prints a table; the exit code is 1 if a bound
# is broken.
#   parity.sh [MODEL...]            all where none is named
#   parity.sh --record [MODEL...]   writes down PyTorch's numbers for a shorter comparison, which is a test
#   parity.sh --record-float32      the same of PyTorch's distances from float64, for some models
#   parity.sh --record-rates        writes down the learning rates of PyTorch's schedulers
#   parity.sh --record-optimizers   writes down the weights that PyTorch's and timm's optimizers reach; PYTHON needs timm
#   PYTHON  an interpreter with torch and numpy; without it torch-venv.sh makes one
#   PRESET  the build to use (release)
#   STEPS, BATCH, LR   of the training runs; by model. The deeper a network, the faster rounding errors grow from step to
#           step, in PyTorch as in lockstep; lower rates keep them small.
#   IMAGE   "channels height width", where not 1 28 28 for lenet, 3 32 32 for resnet20 and else the model's example
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release}
# Gradients are compared at so many steps' weights, each kept from kinks of its batch (see kinks.py), of which oneDNN takes
# Winograd's convolutions.
gradient_steps=10
gradient_batch=16
out=build/parity

python=$(mpi-scripts/parity/torch-venv.sh)
case ${1:-} in
  --record-rates) exec "$python" mpi-scripts/parity/learning-rates-pytorch.py tests/nn/pytorch_learning_rates.json ;;
  --record-optimizers) exec "$python" mpi-scripts/parity/optimizers-pytorch.py tests/nn/pytorch_optimizers.json ;;
esac
[[ -d build/$preset ]] || cmake --preset "$preset"
cmake --build "build/$preset" --target nn_parity trainer_recipe
parity=build/$preset/tests/nn_parity
training=mpi-scripts/parity/parity-pytorch.py
float32=mpi-scripts/parity/parity-float32.py

case ${1:-} in
  --record) exec "$python" "$training" record "$parity" tests/nn/pytorch_models.json "${@:2}" ;;
  --record-float32) exec "$python" "$float32" record "$parity" tests/nn/pytorch_float32.json ;;
esac

image_of() {
  case ${IMAGE:-$1} in
    lenet) echo --image 1 28 28 ;;
    resnet20) echo --image 3 32 32 ;;
    "$1") ;;
    *) echo --image "$IMAGE" ;;
  esac
}

# Sets steps, batch and rate of a model's training run.
training_of() {
  steps=20 batch=8 rate=0.01
  case $1 in
    lenet | resnet20) steps=100 ;;
    crnn-mv3) batch=4 rate=1e-3 ;;
    mobilenet-v2) batch=4 rate=1e-5 ;;
    resnet50) batch=4 rate=1e-6 ;;
    pp-liteseg) batch=4 rate=1e-4 ;;
    yolov5n | yolov5s) batch=3 rate=5e-4 ;;
  esac
  steps=${STEPS:-$steps} batch=${BATCH:-$batch} rate=${LR:-$rate}
}

mapfile -t models < <("$parity" --list)
[[ $# -eq 0 ]] || models=("$@")
result=0
for model in "${models[@]}"; do
  run=$out/$model
  read -ra image < <(image_of "$model") || true
  training_of "$model"
  if [[ $model = yolov5n ]]; then
    "build/$preset/tests/trainer_recipe" "$run/recipe"
    "$python" "$training" recipe "$run/recipe" || result=1
  fi
  common=(--model "$model" "${image[@]}")
  "$parity" "${common[@]}" --steps "$steps" --batch "$batch" --lr "$rate" --weights-every 5 --out "$run/train"
  "$python" "$training" train "$run/train" || result=1
  common+=(--steps "$gradient_steps" --batch "$gradient_batch")
  "$parity" "${common[@]}" --lr "$rate" --out "$run/weights"
  "$python" "$float32" settle "$run/weights"
  common+=(--weights-from "$run/weights")
  "$parity" "${common[@]}" --out "$run/reference"
  "$parity" "${common[@]}" --ops onednn --precision float32 --exact --out "$run/exact"
  "$parity" "${common[@]}" --ops onednn --precision float32 --out "$run/fast"
  "$python" "$float32" compare "$run"/{weights,reference,exact,fast} || result=1
  rm -rf "$run"
done
exit $result
