#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Reads lockstep's event files with the Python package tensorboard: a run of two ranks that was stopped in the middle of an
# epoch and resumed from an earlier checkpoint has each step once, with the values of its metrics.jsonl. Pictures with
# predictions are read, too.
#   PYTHON  an interpreter with tensorboard; without it a virtual environment with the newest one from PyPI is made in
#           build/tensorboard-venv, once
#   PRESET  the build to use (dev)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

has_packages() { "$1" -c 'import PIL, tensorboard' 2>/dev/null; }

preset=${PRESET:-dev}
python=${PYTHON:-build/tensorboard-venv/bin/python}
if ! has_packages "$python"; then
  [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON cannot import tensorboard and PIL"
  echo "Making a virtual environment with tensorboard in build/tensorboard-venv"
  python3 -m venv build/tensorboard-venv || fail "python3 cannot make virtual environments; install python3-venv"
  "$python" -m pip install --quiet tensorboard pillow || fail "pip could not install tensorboard"
fi

[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target train
"$python" mpi-scripts/parity/tensorboard_events.py "build/$preset/bin/train"
