#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares lockstep's non-maximum suppression with torchvision's nms, in random cases with equal scores and overlaps on the
# threshold: the same detections, in the same order.
#   nms.sh [CASES]   draws this many cases (200)
#   PYTHON  an interpreter with torch, torchvision and numpy; without it torch-venv.sh makes one
#   PRESET  the build to use (dev)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-dev}
python=$(mpi-scripts/parity/torch-venv.sh torchvision)
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target workloads_coco_eval

"$python" mpi-scripts/parity/nms_torchvision.py "build/$preset/tests/workloads_coco_eval" "$@"
