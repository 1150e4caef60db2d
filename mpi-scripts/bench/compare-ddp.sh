#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the speed of lockstep with the best that PyTorch does on two cores, in the same precision and in turn. A first
# pass tries PyTorch in every way, once: two ranks of one thread (DistributedDataParallel over Gloo) or one process of two
# threads, images contiguous or channels last, eager or compiled. The best two of them and lockstep then run in turn: two
# ranks of one thread and one of two, without and with --exact. Every second round runs in the opposite order, and a ratio
# is the median of those of the rounds, so that a machine that gets slower meanwhile slows both. Beside that the model's
# convolutions alone, on one thread, each pass of each by the fastest of direct and Winograd kernels. Prints a Markdown table
# that says what other programs and the hypervisor took meanwhile; everything is kept in build/compare-ddp.
#   compare-ddp.sh [MODEL...]   lenet, resnet20, resnet18, mobilenet-v2, unet, pp-liteseg, crnn-mv3; the first four where none is named
#   ROUNDS (5)       how often each runs
#   KEEP (2)         how many of PyTorch's ways run in turn with lockstep, the best of the first pass
#   PRECISION (float32)   or bf16: PyTorch's autocast beside lockstep's --precision bf16
#   OPTIONS          further options of train in the runs without --exact, as "--bucket-mb 8"
#   EXACT (yes)      no: without the runs with --exact
#   BIND (none)      for both: core, a core for each rank, or none, which is torchrun's default. Of core one process of two
#                    threads has only one, so it is left out
#   BATCH, STEPS, WINDOW   total batch, steps of a run and of one measurement in it, the first two of which do not count;
#                    by model
#   TRIAL_STEPS      of a run of the first pass: 6 measurements
#   PRESET           the build to use (release)
#   PYTHON           an interpreter with torch and numpy, for crnn-mv3 Pillow as well; without it torch-venv.sh makes one
#   LOCKSTEP_DATA    the folder with nuclei.tar for unet and pp-liteseg, and cifar10-jpeg.tar.gz for crnn-mv3 (../shared/data)
# The exit code tells whether everything ran. Run it while nothing else runs.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

rounds=${ROUNDS:-5}
keep=${KEEP:-2}
precision=${PRECISION:-float32}
bind=${BIND:-none}
exact=${EXACT:-yes}
read -ra options <<<"${OPTIONS:-}"
preset=${PRESET:-release}
out=build/compare-ddp
train=build/$preset/bin/train
alone=build/$preset/tests/nn_convolutions_alone

[ $# -gt 0 ] || set -- lenet resnet20 resnet18 mobilenet-v2
for model in "$@"; do
  case $model in
    lenet | resnet20 | resnet18 | mobilenet-v2 | unet | pp-liteseg | crnn-mv3) ;;
    *) fail "unknown model '$model'; there are lenet, resnet20, resnet18, mobilenet-v2, unet, pp-liteseg and crnn-mv3" ;;
  esac
done
case $precision in
  float32) formats=() ;;
  bf16) formats=(--precision bf16) ;;
  *) fail "unknown PRECISION=$precision; it is float32 or bf16" ;;
esac
case $bind in
  core) ways=(2x1) ;;
  none) ways=(2x1 1x2) ;;
  *) fail "unknown BIND=$bind; it is core or none" ;;
esac
case $exact in
  yes) kinds=(usual exact) ;;
  no) kinds=(usual) ;;
  *) fail "unknown EXACT=$exact; it is yes or no" ;;
esac

# Sets data, batch, steps and window of a model, and the image of its convolutions where these are measured alone.
settings_of() {
  data=(--dataset synthetic-cifar) image=(3 32 32)
  case $1 in
    lenet) data=(--dataset synthetic-digits) image=(1 28 28) batch=128 window=30 windows=12 ;;
    resnet20) batch=128 window=10 windows=9 ;;
    resnet18) batch=64 window=2 windows=9 ;;
    mobilenet-v2) batch=64 window=2 windows=9 ;;
    unet | pp-liteseg) data=(--data "$out/nuclei" --img 256x256 --augment none --cache ram) image=() batch=8 window=4 windows=9 ;;
    crnn-mv3) data=(--data "$out/lines" --img 32x128 --cache ram) image=() batch=128 window=2 windows=9 ;;
  esac
  batch=${BATCH:-$batch} window=${WINDOW:-$window}
  steps=${STEPS:-$((window * windows))}
  trial_steps=${TRIAL_STEPS:-$((window * 6))}
}

# Makes the pictures of a model that is not trained on drawn ones.
make_data() {
  local folder=${LOCKSTEP_DATA:-../shared/data}
  case $1 in
    unet | pp-liteseg)
      [ -f "$folder/nuclei.tar" ] || fail "$folder/nuclei.tar does not exist; set LOCKSTEP_DATA to the folder with nuclei.tar"
      tar -xf "$folder/nuclei.tar" -C "$out"
      ;;
    crnn-mv3) "$python" mpi-scripts/render_lines.py "$out/lines" --train 2000 --val 10 ;;
  esac
}

# lockstep_run MODEL RANKSxTHREADS KIND FILE. The learning rate's schedule is laid out over more epochs than are run:
# --steps ends them.
lockstep_run() {
  local flags=("${options[@]}")
  [ "$3" = usual ] || flags=(--exact)
  mpirun -np "${2%x*}" --bind-to "$bind" "$train" "${data[@]}" --model "$1" --batch "$batch" \
    --threads "${2#*x}" --epochs 1000 --steps "$steps" --log-every "$window" "${formats[@]}" "${flags[@]}" \
    --eval-interval never --save-dir none --metrics "$4" >"$out/log.txt" 2>&1 || fail "train failed: $(tail -n 5 "$out/log.txt")"
}

# pytorch_run MODEL RANKSxTHREADS_LAYOUT_MODE STEPS FILE
pytorch_run() {
  local way layout mode flags=()
  IFS=_ read -r way layout mode <<<"$2"
  [ "$layout" = contiguous ] || flags+=(--channels-last)
  [ "$mode" = eager ] || flags+=(--compile)
  OMP_NUM_THREADS=${way#*x} "$python" -m torch.distributed.run --standalone --nproc_per_node "${way%x*}" \
    mpi-scripts/bench/ddp_baseline.py --model "$1" --batch "$batch" --steps "$3" --window "$window" --bind "$bind" \
    --threads "${way#*x}" --precision "$precision" "${flags[@]}" >"$4" 2>"$out/log.txt" ||
    # Gloo now and then aborts when its processes end; the figures have been printed by then.
    { [ -s "$4" ] && echo "PyTorch measured, and then crashed at its end"; } ||
    fail "PyTorch failed: $(tail -n 20 "$out/log.txt")"
}

# Tries PyTorch in every way.
try_pytorch() {
  local way layout mode file
  for way in "${ways[@]}"; do
    for layout in contiguous channels-last; do
      for mode in eager compiled; do
        echo "$1, PyTorch tried: $way $layout $mode"
        file=$out/$1-tried-${way}_${layout}_$mode.json
        (pytorch_run "$1" "${way}_${layout}_$mode" "$trial_steps" "$file") || {
          echo "this way is left out: $(grep -m 1 "the loss is" "$out/log.txt" || echo "it failed")"
          rm "$file"
        }
      done
    done
  done
}

# Prints the seconds of all processors that were busy, that the hypervisor took, and that this script's programs used.
seconds_so_far() {
  times >"$out/times"
  awk -v hertz="$(getconf CLK_TCK)" '
    $1 == "cpu" { busy = $2 + $3 + $4 + $7 + $8; stolen = $9 }
    /^[0-9]/ { for (i = 1; i <= 2; ++i) { split($i, part, "[ms]"); own += 60 * part[1] + part[2] } }
    END { printf "%.2f %.2f %.2f\n", busy / hertz, stolen / hertz, own }' /proc/stat "$out/times"
}

# run_turn lockstep|pytorch WAY ROUND, with the variables of compare
run_turn() {
  local kind
  if [ "$1" = pytorch ]; then
    pytorch_run "$model" "$2" "$steps" "$out/$model-pytorch-$2-$3.json"
  else
    for kind in "${kinds[@]}"; do lockstep_run "$model" "$2" "$kind" "$out/$model-lockstep-$2_$kind-$3.jsonl"; done
  fi
}

compare() {
  local model=$1 data image batch steps window windows trial_steps round way best turns turn before
  settings_of "$model"
  make_data "$model"
  try_pytorch "$model"
  mapfile -t best < <("$python" mpi-scripts/bench/ddp_report.py best "$out" "$model" "$keep")
  [ ${#best[@]} -gt 0 ] || fail "none of PyTorch's runs of $model can be compared"
  for ((round = 1; round <= rounds; ++round)); do
    echo "$model, round $round of $rounds, beside PyTorch's ${best[*]}"
    turns=()
    for way in "${ways[@]}"; do turns+=("lockstep $way"); done
    for way in "${best[@]}"; do turns+=("pytorch $way"); done
    [ $((round % 2)) = 1 ] || mapfile -t turns < <(printf '%s\n' "${turns[@]}" | tac)
    before=$SECONDS
    seconds_so_far >"$out/$model-load-$round.txt"
    for turn in "${turns[@]}"; do run_turn "${turn% *}" "${turn#* }" "$round"; done
    { seconds_so_far && echo $((SECONDS - before)); } >>"$out/$model-load-$round.txt"
    [ "$precision" != float32 ] || [ ${#image[@]} = 0 ] ||
      "$alone" --model "$model" --image "${image[@]}" --batch $((batch / 2)) >"$out/$model-alone-one-$round.json"
  done
}

python=$(mpi-scripts/parity/torch-venv.sh)
section "Building $train"
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target train nn_convolutions_alone
rm -rf "$out"
mkdir -p "$out"
section "Measuring"
for model in "$@"; do compare "$model"; done
section "lockstep and PyTorch"
"$python" mpi-scripts/bench/ddp_report.py table "$out" "$bind" "$precision" "${options[*]}"
