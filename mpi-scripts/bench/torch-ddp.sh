#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests lockstep/torch.hpp, which no test of CTest can, as it needs libtorch; on two ranks of one thread:
#   cases     what a program may do: gradients dropped or replaced, parameters unused, batches uneven, ranks that diverge
#   parity    50 steps on the same batches: weights and running statistics within 1e-6 of PyTorch's DDP over Gloo
#   mnist     the example trains on MNIST; only where there is a folder for it
#   speed     steps per second beside PyTorch's DDP over Gloo, in turn, as a ratio of medians
# torch-ddp.sh [PART...]   these parts; all where none is named. It installs lockstep without CUDA into build/torch, since
# PyPI's libtorch brings an NCCL of its own, and takes libtorch from PyPI's package.
#   ROUNDS (5)    how often each runs in `speed`; run it while nothing else runs
#   MNIST         a folder with MNIST's files, plain or gzipped
#   PYTHON        an interpreter with torch and numpy; without it torch-venv.sh makes one
# The exit code tells whether all of it holds.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

rounds=${ROUNDS:-5}
mnist=${MNIST:-}
out=$PWD/build/torch
[ $# -gt 0 ] || set -- cases parity mnist speed
for part in "$@"; do
  case $part in
    cases | parity | mnist | speed) ;;
    *) fail "unknown part '$part'; there are cases, parity, mnist and speed" ;;
  esac
done
export OMP_NUM_THREADS=1

lockstep_run() { mpirun -np 2 --oversubscribe --bind-to none "$@"; }
python_run() { "$python" -m torch.distributed.run --standalone --nproc_per_node 2 mpi-scripts/bench/torch_ddp.py "$@"; }

build() {
  local torch
  torch=$("$python" -c 'import torch; print(torch.__path__[0])')
  section "Building lockstep and what uses libtorch $("$python" -c 'import torch; print(torch.__version__)')"
  cmake -S . -B "$out/lockstep" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DLOCKSTEP_TESTS=OFF \
    -DLOCKSTEP_PROGRAMS=OFF -DLOCKSTEP_CUDA=OFF -DCMAKE_INSTALL_PREFIX="$out/install" >"$out/log.txt"
  cmake --build "$out/lockstep" -j "$jobs" >>"$out/log.txt" || fail "$(tail -n 20 "$out/log.txt")"
  cmake --install "$out/lockstep" >>"$out/log.txt"
  cmake -S examples/torch -B "$out/programs" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$out/install" \
    -DLIBTORCH="$torch" -DPROGRAMS="$PWD/mpi-scripts/bench/torch_ddp.cpp" >>"$out/log.txt"
  cmake --build "$out/programs" -j "$jobs" >>"$out/log.txt" || fail "$(tail -n 20 "$out/log.txt")"
}

cases() {
  section "What a program may do"
  lockstep_run "$out/programs/torch_ddp" cases || fail "cases of lockstep/torch.hpp"
}

parity() {
  section "The same weights as PyTorch's DDP"
  local model
  mkdir -p "$out/parity"
  "$python" mpi-scripts/bench/torch_ddp.py data "$out/parity"
  for model in cnn mlp; do
    lockstep_run "$out/programs/torch_ddp" train "$model" "$out/parity"
    python_run train "$model" "$out/parity"
    "$python" mpi-scripts/bench/torch_ddp.py compare "$model" "$out/parity" 1e-6
  done
  rm -r "$out/parity"
}

mnist() {
  section "The example, on MNIST"
  if [ -z "$mnist" ]; then
    echo "left out: MNIST names no folder"
    return
  fi
  local file text
  mkdir -p "$out/mnist"
  for file in {train,t10k}-{images-idx3,labels-idx1}-ubyte; do
    if [ -e "$mnist/$file" ]; then cp "$mnist/$file" "$out/mnist"; else gzip -dc "$mnist/$file.gz" >"$out/mnist/$file"; fi
  done
  text=$(lockstep_run "$out/programs/torch_mnist" "$out/mnist" 1)
  echo "$text"
  grep -qE 'epoch 1: 9[789]\.[0-9]+ % of 10000 are right' <<<"$text" || fail "torch_mnist has not learned MNIST"
}

speed() {
  section "Steps per second, batches of 2 × 32, on $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
  local model round way
  for model in cnn mlp; do
    rm -f "$out"/speed."$model".*
    for ((round = 1; round <= rounds; ++round)); do
      lockstep_run "$out/programs/torch_ddp" speed "$model" >>"$out/speed.$model.lockstep"
      for way in no yes; do
        python_run speed "$model" "$way" >>"$out/speed.$model.$way" 2>"$out/log.txt" || fail "$(cat "$out/log.txt")"
      done
    done
    "$python" - "$out/speed.$model" "$model" <<'END'
import statistics, sys
median = {way: statistics.median(float(line) for line in open(f"{sys.argv[1]}.{way}")) for way in ("lockstep", "no", "yes")}
best = max(median["no"], median["yes"])
print(f"{sys.argv[2]}: lockstep {median['lockstep']:.1f}, PyTorch {median['no']:.1f}, with gradient_as_bucket_view "
      f"{median['yes']:.1f}; lockstep ÷ the faster of PyTorch's: {median['lockstep'] / best:.2f}")
END
  done
}

python=$PWD/$(mpi-scripts/parity/torch-venv.sh)
[ -z "${PYTHON:-}" ] || python=$PYTHON
mkdir -p "$out"
build
for part in "$@"; do "$part"; done
