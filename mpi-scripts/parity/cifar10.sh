#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains resnet20 on CIFAR-10's JPEGs with configs/cifar10-resnet20.conf on two ranks, and in PyTorch with the same recipe on the same
# pixels, with two seeds each. The mean accuracy on the test images must be at least 89.5 %, and within 0.4 points of PyTorch's. Writes
# the accuracy after each epoch to docs/measurements/cifar10.csv and draws it. The epochs of each complete run are in
# docs/measurements/cifar10, and a run that is there is not repeated. A run that was cut goes on from its last epoch; remove
# build/cifar10 after a change of the recipe. Takes five hours on two cores.
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
logs=docs/measurements/cifar10
jpegs=$(cifar10_jpegs)
words=()
[ -z "${EPOCHS:-}" ] || words=(--epochs "$EPOCHS")
case ${1:-} in
  '') ;;
  --try)
    out=build/cifar10-try
    logs=$out/logs
    rm -rf "$out"
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
mkdir -p "$out" "$logs"

# train_lockstep RUN [OPTION...]
train_lockstep() {
  mpirun -np 2 --bind-to none "build/$preset/bin/train" --config "$configuration" --data "$jpegs" --threads 1 --save-dir "$1" --resume auto \
    "${words[@]}" "${@:2}"
}
# keep FILE   the epochs and the end of a complete run
keep() {
  grep -q '"event":"end","outcome":"completed"' "$1" || fail "$1 is not the log of a complete run"
  grep -E '"event":"(epoch|end)"' "$1" >"$logs/$(basename "$1")"
}

for seed in "${seeds[@]}"; do
  section "Seed $seed, lockstep on two ranks"
  if [ ! -f "$logs/lockstep-$seed.jsonl" ]; then
    train_lockstep "$out/run-$seed" --seed "$seed" --metrics "$out/lockstep-$seed.jsonl"
    keep "$out/lockstep-$seed.jsonl"
  fi
  section "Seed $seed, PyTorch on two ranks"
  if [ ! -f "$logs/pytorch-$seed.jsonl" ]; then
    # Any run of lockstep's holds the recipe: this seed's, or where its log alone is left, one that is cut soon after the warm-up.
    run=$out/run-$seed
    [ -d "$run" ] || run=$out/recipe
    [ -d "$run" ] || train_lockstep "$run" --steps 800 --eval-interval never
    "$python" mpi-scripts/parity/cifar10-pytorch.py train "$run" "$jpegs" "$seed" "$out/pytorch-$seed.jsonl"
    keep "$out/pytorch-$seed.jsonl"
  fi
done

section "Results"
if [ "${1:-}" = --try ]; then
  "$python" mpi-scripts/parity/cifar10-pytorch.py table "$logs"
else
  "$python" mpi-scripts/parity/cifar10-pytorch.py table "$logs" --csv docs/measurements/cifar10.csv --least 0.895 --within 0.004
  python3 mpi-scripts/bench/plots.py
fi
