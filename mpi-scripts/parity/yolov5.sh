#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares yolov5n and yolov5s with YOLOv5's own code (the package yolov5 of PyPI, which is only run): weights that train has written
# give the same maps and boxes there, in lockstep_models.py and in onnxruntime within 1e-4, and a .pt file gives the same boxes after
# convert_yolov5.py. Twenty steps of network and loss in float64 beside PyTorch are those of parity.sh yolov5n yolov5s.
#   yolov5.sh [MODEL...]
#   PYTHON  an interpreter; see yolov5-venv.sh
#   PRESET  the build to use (dev)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-dev}
python=$(mpi-scripts/parity/yolov5-venv.sh)
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target train lockstep-export
"$python" mpi-scripts/parity/yolov5-original.py "build/$preset/bin" "$@"
