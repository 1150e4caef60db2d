#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the speed of train with the oneDNN of this system and with 3.2, the newest on PyPI that needs no SYCL. Both programs
# train the same models on two ranks of one thread, in turn; every second round runs in the opposite order. Prints a Markdown
# table: images a second, medians of the rounds, and the median of the rounds' ratios.
#   compare-onednn.sh [MODEL:PRECISION...]   of lenet, resnet20 and resnet18, in float32 and bf16; all where none is named, those
#                                            in bf16 only where the processor has instructions for it
#   ROUNDS (3)
#   PRESET (release)   the build with the system's oneDNN; the other one is build/onednn-3
# Run it while nothing else runs.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release} rounds=${ROUNDS:-3}
out=build/compare-onednn
newer=$PWD/build/onednn-3.2

if [ $# -eq 0 ]; then
  set -- lenet:float32 resnet20:float32 resnet18:float32
  if grep -qwE 'avx512_bf16|amx_bf16' /proc/cpuinfo; then set -- "$@" lenet:bf16 resnet20:bf16 resnet18:bf16; fi
fi

# Sets data, batch, window and steps of a model.
settings_of() {
  data=synthetic-cifar
  case $1 in
    lenet) data=synthetic-digits batch=128 window=30 steps=300 ;;
    resnet20) batch=128 window=10 steps=80 ;;
    resnet18) batch=64 window=2 steps=14 ;;
    *) fail "unknown model '$1'; there are lenet, resnet20 and resnet18" ;;
  esac
}

# rate_of BUILD MODEL PRECISION: images a second, the median of the windows but the first two
rate_of() {
  rm -f "$out/metrics.jsonl"
  mpirun -np 2 --bind-to none "build/$1/bin/train" --dataset "$data" --model "$2" --precision "$3" --batch "$batch" --threads 1 \
    --epochs 1000 --steps "$steps" --log-every "$window" --eval-interval never --save-dir none --metrics "$out/metrics.jsonl" \
    >"$out/log.txt" 2>&1 || fail "train failed: $(tail -n 5 "$out/log.txt")"
  sed -n 's/.*"event":"step".*"images_per_second":\([0-9.]*\).*/\1/p' "$out/metrics.jsonl" | tail -n +3 | median
}
median() { sort -g | awk '{ all[NR] = $1 } END { print NR % 2 ? all[(NR + 1) / 2] : (all[NR / 2] + all[NR / 2 + 1]) / 2 }'; }

section "Building train with both"
if [ ! -d "$newer" ]; then
  python3 -m venv build/onednn-venv
  build/onednn-venv/bin/pip install --quiet onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0
  ln -sfn "$PWD/build/onednn-venv" "$newer"
fi
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target train
[ -f build/onednn-3/CMakeCache.txt ] ||
  cmake -S . -B build/onednn-3 -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_CUDA=OFF \
    -DCMAKE_PREFIX_PATH="$newer" -DCMAKE_BUILD_RPATH="$newer/lib"
cmake --build build/onednn-3 -j "$jobs" --target train
mkdir -p "$out"

version_of() { "build/$1/bin/train" --version | sed -n 's/^oneDNN //p'; }
[ "$(version_of onednn-3)" != "$(version_of "$preset")" ] || fail "build/onednn-3 has the oneDNN of this system: $(version_of "$preset")"

section "oneDNN $(version_of "$preset") and $(version_of onednn-3) on $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
printf '| Model, precision | %s | %s | ratio |\n|---|---|---|---|\n' "$(version_of "$preset")" "$(version_of onednn-3)"
for which in "$@"; do
  model=${which%:*} precision=${which#*:}
  settings_of "$model"
  rm -f "$out/$which".*
  for ((round = 1; round <= rounds; ++round)); do
    turns=("$preset" onednn-3)
    [ $((round % 2)) = 1 ] || turns=(onednn-3 "$preset")
    for build in "${turns[@]}"; do rate_of "$build" "$model" "$precision" >>"$out/$which.$build"; done
  done
  ratio=$(paste "$out/$which.$preset" "$out/$which.onednn-3" | awk '{ print $2 / $1 }' | median)
  printf '| %s, %s | %.0f | %.0f | %.2f |\n' "\`$model\`" "$precision" "$(median <"$out/$which.$preset")" "$(median <"$out/$which.onednn-3")" "$ratio"
done
