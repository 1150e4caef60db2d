#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the boxes that lockstep reads from annotations of COCO, from data.yaml with labels of YOLO, and from Pascal VOC with
# those of pycocotools and of readers in Python. The data are BCCD, written in each format with what users' files have besides:
# crowds, gaps in ids, polygons, repeated lines, pictures without boxes.
#   boxes.sh [COCO_JSON...]   also compares these annotations, beside which their pictures lie
#   PYTHON         an interpreter with numpy, Pillow, PyYAML and pycocotools; without it a virtual environment with the newest
#                  ones from PyPI is made in build/boxes-venv, once. If it has the package yolov5, YOLOv5's loader is compared, too
#   PRESET         the build to use, with tests (dev)
#   LOCKSTEP_DATA  the folder with bccd.tar (../shared/data)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-dev}
python=${PYTHON:-build/boxes-venv/bin/python}
has_packages() { "$1" -c 'import numpy, PIL, yaml, pycocotools.coco' 2>/dev/null; }
if ! has_packages "$python"; then
  [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON cannot import all of: numpy PIL yaml pycocotools"
  echo "Making a virtual environment with pycocotools in build/boxes-venv"
  python3 -m venv build/boxes-venv || fail "python3 cannot make virtual environments; install python3-venv"
  "$python" -m pip install --quiet numpy pillow pyyaml pycocotools || fail "pip could not install what is compared with"
fi
archive=${LOCKSTEP_DATA:-../shared/data}/bccd.tar
[ -f "$archive" ] || fail "$archive does not exist; set LOCKSTEP_DATA to the folder with bccd.tar"
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target vision_list_boxes
mkdir -p build/boxes
tar -xf "$archive" -C build/boxes
"$python" mpi-scripts/parity/boxes.py "build/$preset/tests/vision_list_boxes" build/boxes/bccd "$@"
