#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares how lockstep and torchvision's ImageFolder read folders of classes: the classes, and path and label of every sample in
# order. The folders are CIFAR-10's JPEGs, and one with awkward names.
#   PYTHON         an interpreter with torchvision; without it the newest one from PyPI is added to build/torch-venv
#   PRESET         the build to use (dev)
#   LOCKSTEP_DATA  the folder with cifar10-jpeg.tar.gz (../shared/data); without the file only the awkward folder is compared
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

has_torchvision() { "$1" -c 'import torchvision' 2>/dev/null; }

preset=${PRESET:-dev}
if [ -n "${PYTHON:-}" ]; then
  python=$PYTHON
  has_torchvision "$python" || fail "PYTHON=$PYTHON cannot import torchvision"
else
  python=$(mpi-scripts/parity/torch-venv.sh)
  has_torchvision "$python" || "$python" -m pip install --quiet torchvision || fail "pip could not install torchvision"
fi

[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target vision_list_samples

archive=${LOCKSTEP_DATA:-../shared/data}/cifar10-jpeg.tar.gz
folders=()
if [ -f "$archive" ]; then
  folder=build/cifar10-jpeg
  [ -d "$folder/test/truck" ] || { mkdir -p "$folder" && tar -xzf "$archive" -C "$folder"; }
  folders=("$folder")
else
  echo "$archive does not exist: CIFAR-10 is not compared"
fi
"$python" mpi-scripts/parity/sources_torchvision.py "build/$preset/tests/vision_list_samples" "${folders[@]}"
