#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains YOLOv5's own code (the package yolov5 of PyPI) on the blood cells of BCCD on two ranks over lockstep_torch, under torchrun and
# mpirun, and over Gloo, and compares the weights, which must be the same in every digit. Takes some minutes.
#   EPOCHS         of each run (3)
#   PYTHON         an interpreter; see yolov5-venv.sh
#   PREFIX         a folder where lockstep is installed; without it PRESET (release) is built and installed
#   LOCKSTEP_DATA  the folder with bccd.tar (../shared/data)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

python=$(realpath -s "$(mpi-scripts/parity/yolov5-venv.sh)") # a link to another folder would lose the virtual environment
out=build/torch-yolov5
epochs=${EPOCHS:-3}
archive=${LOCKSTEP_DATA:-../shared/data}/bccd.tar
[ -f "$archive" ] || fail "$archive does not exist; LOCKSTEP_DATA can name the folder that has it"
rm -rf "$out"
mkdir -p "$out"

section "Building the back end"
prefix=${PREFIX:-}
if [ -z "$prefix" ]; then
  prefix=$PWD/$out/prefix preset=${PRESET:-release}
  [ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
  cmake --build "build/$preset" -j "$jobs"
  cmake --install "build/$preset" --prefix "$prefix" >/dev/null
fi
CMAKE_PREFIX_PATH=$prefix "$python" -m pip install --quiet --no-build-isolation --no-deps --target "$out/site" ./bindings/torch
export PYTHONPATH=$PWD/$out/site

section "Data"
tar -xf "$archive" -C "$out"
python3 mpi-scripts/parity/bccd.py layout "$out/bccd" "$out/data"

# train NAME BACKEND LAUNCH...
train() {
  section "$1"
  mkdir "$out/$1"
  "${@:3}" mpi-scripts/parity/bccd.py train "$out/data/data.yaml" "$out/$1" "$epochs" 0 0 "$2" >"$out/$1.log" 2>&1 ||
    fail "it failed; $out/$1.log says why"
  cat "$out/$1/log.jsonl"
}
torchrun=("$python" -m torch.distributed.run --standalone --nproc-per-node 2)
train gloo gloo "${torchrun[@]}"
train torchrun lockstep "${torchrun[@]}"
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
train mpirun lockstep "${MPIEXEC:-mpirun}" -n 2 --oversubscribe --bind-to none "$python"

section "Weights"
"$python" - "$out" gloo torchrun mpirun <<'END'
import pathlib
import sys

import torch
import yolov5  # whose classes are in the files

out, first, *others = sys.argv[1:]
states = {name: torch.load(pathlib.Path(out, name, "run/weights/last.pt"), weights_only=False)["model"].state_dict() for name in (first, *others)}
for name in others:
    different = [key for key, value in states[first].items() if not torch.equal(value, states[name][key])]
    print(f"{name}: {len(states[name])} tensors, of which {len(different)} differ from {first}'s")
    if different or len(states[name]) != len(states[first]):
        sys.exit(f"error: {different[:3]}")
END
