#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares what onnxruntime computes from models that lockstep-export writes with what PyTorch computes from the same checkpoint
# (logits.sh compares that with lockstep): within 1e-4 of the largest number, in float32, with several batches.
#   onnx.sh [MODEL...]   all that can be exported where none is named
#   PYTHON  an interpreter with torch, numpy, safetensors, onnx and onnxruntime; without it torch-venv.sh makes one
#   PRESET  the build to use (dev)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-dev}
python=$(mpi-scripts/parity/torch-venv.sh safetensors onnx onnxruntime)
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target train lockstep-export
"$python" mpi-scripts/parity/onnx-runtime.py "build/$preset/bin" "$@"
