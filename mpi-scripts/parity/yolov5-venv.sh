#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the Python interpreter that the comparisons with YOLOv5's own code run on, which is the package yolov5 of PyPI.
#   PYTHON  an interpreter with yolov5, onnxruntime and safetensors; without it a virtual environment is made in build/yolov5-venv,
#           once (some minutes, several GB)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

python=${PYTHON:-build/yolov5-venv/bin/python}
if ! "$python" -c 'import yolov5, onnxruntime, safetensors' 2>/dev/null; then
  [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON cannot import yolov5, onnxruntime and safetensors"
  echo "Making a virtual environment with YOLOv5's own code in build/yolov5-venv" >&2
  python3 -m venv build/yolov5-venv >&2 || fail "python3 cannot make virtual environments; install python3-venv"
  install=("$python" -m pip install --quiet)
  "${install[@]}" torch torchvision numpy safetensors onnxruntime opencv-python-headless pandas seaborn matplotlib scipy psutil pyyaml \
    tqdm requests gitpython fire tensorboard pycocotools scikit-build-core ninja "setuptools==75.8.0" >&2 || fail "pip could not install what yolov5 needs"
  # Their own requirements name packages that these comparisons do not need.
  "${install[@]}" --no-deps thop yolov5==7.0.14 ultralytics sahi py-cpuinfo "huggingface-hub==0.24.7" >&2 ||
    fail "pip could not install yolov5"
fi
echo "$python"
