#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains yolov5n on the blood cells of BCCD with configs/bccd-yolov5n.conf on two ranks, with three seeds and once with the annotations
# of the training pictures exchanged, and by YOLOv5's own code (the package yolov5 of PyPI) with as many epochs, its own recipe and one
# seed. Then compares images per second, in runs that take turns. Prints both tables and fails where a bound is broken: a mean mAP@0.5
# of 84, at most 3 points below YOLOv5's; 35 with exchanged annotations; 1.5 times the images per second. Logs are in build/bccd. A run
# whose log is complete there is not repeated. Takes some hours on two cores.
#   bccd.sh accuracy|speed   one of the two
#   SEEDS          of lockstep's runs ("1 2 3")
#   EPOCHS         of each run (those of the configuration)
#   PAIRS          of runs that compare the speed, of 3 epochs each (3)
#   PYTHON         an interpreter; see yolov5-venv.sh
#   PRESET         the build to use (release)
#   LOCKSTEP_DATA  the folder with bccd.tar (../shared/data)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release}
read -ra seeds <<<"${SEEDS:-1 2 3}"
configuration=configs/bccd-yolov5n.conf
epochs=${EPOCHS:-$(sed -n 's/^epochs = //p' "$configuration")}
out=build/bccd
archive=${LOCKSTEP_DATA:-../shared/data}/bccd.tar
parts=("${1:-accuracy}" "${1:-speed}")
[[ ${1:-speed} =~ ^(accuracy|speed)$ ]] || fail "unknown part '$1'; there are accuracy and speed"

section "Building train"
python=$(mpi-scripts/parity/yolov5-venv.sh)
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target train
mkdir -p "$out"/{accuracy,speed,runs}
if [ ! -d "$out/yolov5" ]; then
  [ -f "$archive" ] || fail "$archive does not exist; LOCKSTEP_DATA can name the folder that has it"
  rm -rf "$out"/{bccd,exchanged,yolov5.part}
  tar -xf "$archive" -C "$out"
  python3 mpi-scripts/parity/bccd.py exchange "$out/bccd" "$out/exchanged"
  python3 mpi-scripts/parity/bccd.py layout "$out/bccd" "$out/yolov5.part"
  sed -i 's/yolov5\.part/yolov5/' "$out/yolov5.part/data.yaml" && mv "$out/yolov5.part" "$out/yolov5"
fi

is_complete() { [ -f "$1" ] && grep -q '"event":[ ]*"end", *"outcome":[ ]*"completed"' "$1"; }

# lockstep LOG DATA [OPTION...]
lockstep() {
  local log=$1 data=$2
  is_complete "$log" && return
  section "lockstep, $log"
  rm -rf "$log" "$out/runs/$(basename "$log" .jsonl)"
  mpirun -np 2 --bind-to none "build/$preset/bin/train" --config "$configuration" --data "$data" --workers 1 \
    --save-dir "$out/runs/$(basename "$log" .jsonl)" --metrics "$log" "${@:3}"
}

# yolov5 LOG PROCESSES EPOCHS SEED WORKERS
yolov5() {
  local log=$1 command=("$python") run
  run=$out/runs/$(basename "$log" .jsonl)
  is_complete "$log" && return
  section "YOLOv5, $log"
  [ "$2" = 1 ] || command+=(-m torch.distributed.run --standalone --nproc-per-node "$2")
  rm -rf "$run"
  mkdir -p "$run"
  "${command[@]}" mpi-scripts/parity/bccd.py train "$out/yolov5/data.yaml" "$run" "${@:3}" >"${log%.jsonl}.log" 2>&1 ||
    fail "YOLOv5 failed; ${log%.jsonl}.log says why"
  mv "$run/log.jsonl" "$log"
}

if [[ ${parts[0]} = accuracy ]]; then
  for seed in "${seeds[@]}"; do
    lockstep "$out/accuracy/lockstep-$seed.jsonl" "$out/bccd" --epochs "$epochs" --seed "$seed"
  done
  lockstep "$out/accuracy/exchanged-1.jsonl" "$out/exchanged" --epochs "$epochs" --seed 1
  yolov5 "$out/accuracy/yolov5-0.jsonl" 1 "$epochs" 0 0
fi
if [[ ${parts[1]} = speed ]]; then
  for ((pair = 1; pair <= ${PAIRS:-3}; ++pair)); do
    lockstep "$out/speed/lockstep-$pair.jsonl" "$out/bccd" --epochs 3 --eval-interval never
    for processes in 1 2; do
      for workers in 0 1 2; do
        yolov5 "$out/speed/yolov5-$processes-$workers-$pair.jsonl" "$processes" 3 0 "$workers"
      done
    done
  done
fi

section "Results"
lscpu | sed -n 's/^Model name: */on /p'
result=0
[[ ${parts[0]} != accuracy ]] || python3 mpi-scripts/parity/bccd.py accuracy "$out/accuracy" || result=1
[[ ${parts[1]} != speed ]] || python3 mpi-scripts/parity/bccd.py speed "$out/speed" || result=1
exit $result
