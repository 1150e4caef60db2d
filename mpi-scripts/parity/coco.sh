#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares how lockstep and pycocotools evaluate boxes, in many random cases: crowds, pictures and classes without boxes or
# detections, equal scores, areas on the borders of ranges, overlaps on thresholds, more than 100 detections of a class, ids with
# gaps. All values must be equal within 1e-9.
#   coco.sh [CASES]                  draws this many cases (500)
#   coco.sh --record                 writes some cases with pycocotools' answers into tests/workloads/coco_cases.json
#   coco.sh --files TRUTH PREDICTIONS   prints pycocotools' values of COCO's files instances_*.json and predictions.json, beside
#                                    lockstep's
#   PYTHON  an interpreter with pycocotools; without it a virtual environment is made in build/coco-venv, once
#   PRESET  the build to use (dev)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-dev}
python=${PYTHON:-build/coco-venv/bin/python}
if ! "$python" -c 'import pycocotools' 2>/dev/null; then
  [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON cannot import pycocotools"
  echo "Making a virtual environment with pycocotools in build/coco-venv" >&2
  python3 -m venv build/coco-venv >&2 || fail "python3 cannot make virtual environments; install python3-venv"
  "$python" -m pip install --quiet pycocotools==2.0.11 numpy >&2 || fail "pip could not install pycocotools"
fi
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target workloads_coco_eval

"$python" mpi-scripts/parity/coco_pycocotools.py "build/$preset/tests/workloads_coco_eval" "$@"
