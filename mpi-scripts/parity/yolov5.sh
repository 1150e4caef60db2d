#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares yolov5n and yolov5s with YOLOv5's own code (the package yolov5 of PyPI, which is only run): weights that train has written
# give the same maps and boxes there, in lockstep_models.py and in onnxruntime within 1e-4, and a .pt file gives the same boxes after
# convert_yolov5.py. Twenty steps of network and loss in float64 beside PyTorch are those of parity.sh yolov5n yolov5s.
#   yolov5.sh [MODEL...]
#   PYTHON  an interpreter with the packages below; without it a virtual environment is made in build/yolov5-venv (several GB)
#   PRESET  the build to use (dev)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-dev}
python=${PYTHON:-build/yolov5-venv/bin/python}
if ! "$python" -c 'import yolov5, onnxruntime, safetensors' 2>/dev/null; then
  [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON cannot import yolov5, onnxruntime and safetensors"
  echo "Making a virtual environment with YOLOv5's own code in build/yolov5-venv" >&2
  python3 -m venv build/yolov5-venv || fail "python3 cannot make virtual environments; install python3-venv"
  install=("$python" -m pip install --quiet)
  "${install[@]}" torch torchvision numpy safetensors onnxruntime opencv-python-headless pandas seaborn matplotlib scipy psutil pyyaml \
    tqdm requests gitpython fire tensorboard pycocotools "setuptools==75.8.0"
  # Their own requirements name packages that these comparisons do not need.
  "${install[@]}" --no-deps thop yolov5==7.0.14 ultralytics sahi py-cpuinfo "huggingface-hub==0.24.7"
fi
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target train lockstep-export
"$python" mpi-scripts/parity/yolov5-original.py "build/$preset/bin" "$@"
