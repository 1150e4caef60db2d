#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares what models compute in lockstep and in PyTorch from the same file of weights: `train` writes one that lockstep_models.py
# loads, and models of PyTorch, torchvision and timm write ones that `train --weights` loads. The logits agree within 1e-9.
#   logits.sh [MODEL...]   all classifiers where none is named
#   PYTHON  an interpreter with torch, torchvision, timm, numpy and safetensors; without it torch-venv.sh makes one
#   PRESET  the build to use, with tests (dev)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-dev}
python=$(mpi-scripts/parity/torch-venv.sh torchvision timm safetensors)
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target train trainer_logits
"$python" mpi-scripts/parity/logits-pytorch.py "build/$preset/bin/train" "build/$preset/tests/trainer_logits" "$@"
