#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures how many pictures a second one core turns from JPEG into what a network sees, beside Pillow (and torchvision where
# PYTHON has it): BCCD's 640×480 to 224 on the shorter side. Both take turns within one run, seven times.
#   pictures.sh [SECONDS]   of each turn (1)
#   PYTHON        an interpreter with Pillow and numpy; without it parity/pictures-venv.sh makes one
#   PRESET        the build to use, with tests (release, configured with -DLOCKSTEP_TESTS=ON)
#   LOCKSTEP_DATA the folder with bccd.tar (../shared/data)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release}
python=$(mpi-scripts/parity/pictures-venv.sh)
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target vision_picture_bytes
"$python" mpi-scripts/bench/pictures.py "build/$preset/tests/vision_picture_bytes" "${LOCKSTEP_DATA:-../shared/data}/bccd.tar" \
  "${1:-1}"
