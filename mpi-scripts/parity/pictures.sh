#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares pictures as lockstep decodes, resizes and colors them with what Pillow makes of the same files, byte by byte: real
# ones in LOCKSTEP_DATA, and files of every kind that Pillow writes.
#   pictures.sh [--full]   --full: all pictures of CIFAR-10, not every 50th
#   PYTHON        an interpreter with Pillow and numpy; without it a virtual environment with the newest ones from PyPI is made
#                 in build/pictures-venv, once
#   PRESET        the build to use, with tests (dev)
#   LOCKSTEP_DATA the folder with bccd.tar, nuclei.tar and cifar10-jpeg.tar.gz (../shared/data); what is missing is left out
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-dev}
python=$(mpi-scripts/parity/pictures-venv.sh)
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target vision_picture_bytes
"$python" mpi-scripts/parity/pictures.py "build/$preset/tests/vision_picture_bytes" "${LOCKSTEP_DATA:-../shared/data}" "$@"
