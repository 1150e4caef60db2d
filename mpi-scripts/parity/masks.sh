#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the metrics of segmentation with cityscapesscripts' and with a direct count. Pictures of nuclei in many sizes are written in
# Cityscapes' layout, with ids that are ignored; unet learns a little, and is evaluated on one, two and three ranks, at two scales. The
# masks that it predicts are then judged by the others.
#   PYTHON         an interpreter with numpy, Pillow and cityscapesscripts; without it a virtual environment with the newest ones
#                  from PyPI is made in build/masks-venv, once
#   PRESET         the build to use (release)
#   LOCKSTEP_DATA  the folder with nuclei.tar (../shared/data)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release}
python=${PYTHON:-build/masks-venv/bin/python}
has_packages() { "$1" -c 'import numpy, PIL, cityscapesscripts' 2>/dev/null; }
if ! has_packages "$python"; then
  [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON cannot import all of: numpy PIL cityscapesscripts"
  echo "Making a virtual environment with cityscapesscripts in build/masks-venv"
  python3 -m venv build/masks-venv || fail "python3 cannot make virtual environments; install python3-venv"
  "$python" -m pip install --quiet numpy pillow cityscapesscripts || fail "pip could not install what is compared with"
fi
archive=${LOCKSTEP_DATA:-../shared/data}/nuclei.tar
[ -f "$archive" ] || fail "$archive does not exist; set LOCKSTEP_DATA to the folder with nuclei.tar"
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target train
rm -rf build/masks
mkdir -p build/masks
tar -xf "$archive" -C build/masks
"$python" mpi-scripts/parity/masks.py "build/$preset/bin/train" build/masks
