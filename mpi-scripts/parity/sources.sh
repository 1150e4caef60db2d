#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares how lockstep and torchvision's ImageFolder read folders of classes: the classes, and path and label of every sample in
# order. The folders are CIFAR-10's JPEGs, and one with awkward names.
#   PYTHON         an interpreter with torch, torchvision and numpy; without it torch-venv.sh makes one
#   PRESET         the build to use (dev)
#   LOCKSTEP_DATA  the folder with cifar10-jpeg.tar.gz (../shared/data); without the file only the awkward folder is compared
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-dev}
python=$(mpi-scripts/parity/torch-venv.sh torchvision)
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target vision_list_samples

folders=()
if [ -f "${LOCKSTEP_DATA:-../shared/data}/cifar10-jpeg.tar.gz" ]; then
  folders=("$(cifar10_jpegs)")
else
  echo "${LOCKSTEP_DATA:-../shared/data}/cifar10-jpeg.tar.gz does not exist: CIFAR-10 is not compared"
fi
"$python" mpi-scripts/parity/sources_torchvision.py "build/$preset/tests/vision_list_samples" "${folders[@]}"
