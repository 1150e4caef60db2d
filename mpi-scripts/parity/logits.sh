#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares what models compute in lockstep and in PyTorch from the same file of weights: `train` writes one that PyTorch loads,
# and torchvision's models write one that `train --weights` loads. The logits agree within 1e-9.
#   logits.sh [MODEL...]   resnet18 resnet50 mobilenet-v2 vgg11-bn where none is named
#   PYTHON  an interpreter with torch, torchvision, numpy and safetensors; without it torch-venv.sh makes one, and the other
#           packages are installed there
#   PRESET  the build to use, with tests (dev)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-dev}
python=$(mpi-scripts/parity/torch-venv.sh)
if ! "$python" -c 'import safetensors, torchvision' 2>/dev/null; then
  [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON cannot import safetensors and torchvision"
  "$python" -m pip install --quiet safetensors torchvision || fail "pip could not install safetensors and torchvision"
fi
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build --preset "$preset" -j "$jobs" --target train trainer_logits
"$python" mpi-scripts/parity/logits-pytorch.py "build/$preset/bin/train" "build/$preset/tests/trainer_logits" "$@"
