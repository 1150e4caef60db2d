#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains resnet20 on CIFAR-10's JPEGs with configs/cifar10-resnet20.conf on two ranks, and in PyTorch with the same recipe on the same
# pixels, with two seeds each. The mean accuracy on the test images must be at least 89.5 %, and within 0.4 points of PyTorch's. Writes
# the accuracy after each epoch to docs/measurements/cifar10.csv and draws it; logs are in build/cifar10. A run whose log is complete
# there is not repeated. Takes some hours on two cores.
#   cifar10.sh --try   two epochs of a tenth of the pictures, without bounds, in build/cifar10-try
#   SEEDS          ("1 2")
#   EPOCHS         of each run, where not those of the configuration
#   PYTHON         an interpreter with torch, torchvision, safetensors and numpy; without it torch-venv.sh makes one
#   PRESET         the build to use (release)
#   LOCKSTEP_DATA  the folder with cifar10-jpeg.tar.gz (../shared/data)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release}
read -ra seeds <<<"${SEEDS:-1 2}"
configuration=configs/cifar10-resnet20.conf
out=build/cifar10
jpegs=$(cifar10_jpegs)
words=()
[ -z "${EPOCHS:-}" ] || words=(--epochs "$EPOCHS")
case ${1:-} in
  '') ;;
  --try)
    out=build/cifar10-try
    python3 mpi-scripts/bench/pictures_subset.py "$jpegs" 0.1 "$out/jpeg"
    jpegs=$out/jpeg
    words=(--epochs "${EPOCHS:-2}")
    ;;
  *) fail "unknown option '$1'; there is --try" ;;
esac

section "Building train"
python=$(mpi-scripts/parity/torch-venv.sh torchvision safetensors)
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target train
mkdir -p "$out"

is_complete() { [ -f "$1" ] && grep -q '"event":"end","outcome":"completed"' "$1"; }

for seed in "${seeds[@]}"; do
  section "Seed $seed, lockstep on two ranks"
  log=$out/lockstep-$seed.jsonl
  if ! is_complete "$log"; then
    rm -rf "$out/run-$seed" "$log"
    mpirun -np 2 --bind-to none "build/$preset/bin/train" --config "$configuration" --data "$jpegs" --seed "$seed" --threads 1 \
      --save-dir "$out/run-$seed" --metrics "$log" "${words[@]}"
  fi
  section "Seed $seed, PyTorch on two ranks"
  log=$out/pytorch-$seed.jsonl
  is_complete "$log" || "$python" mpi-scripts/parity/cifar10-pytorch.py train "$out/run-$seed" "$jpegs" "$seed" "$log"
done

section "Results"
if [ "${1:-}" = --try ]; then
  "$python" mpi-scripts/parity/cifar10-pytorch.py table "$out"
else
  "$python" mpi-scripts/parity/cifar10-pytorch.py table "$out" --csv docs/measurements/cifar10.csv --least 0.895 --within 0.004
  python3 mpi-scripts/bench/plots.py
fi
