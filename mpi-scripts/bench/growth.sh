#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains crnn-mv3 by configs/rendered-crnn-mv3.conf as one GPU with a batch of 8 lines would, and as 24 GPUs with 8 lines each, with 1, 2
# and 3 times the learning rate, in the same number of lines: what becomes of the accuracy when a job grows. Batch norms see 8 lines in
# each case. Two ranks compute what 24 GPUs would (--shards 24). What one GPU would, a single rank computes, as a shard is not divided;
# its three runs take place at once. Prints the table of docs/scale.md.
#   growth.sh DATA        a folder of lines (mpi-scripts/render_lines.py FOLDER --lmdb)
#   EPOCHS        of each run (2), which take two hours on two cores of a Xeon
#   PRESET        the build to use (release)
# The epochs of each complete run are in docs/measurements/growth; a run that is there is not repeated, and one that was cut goes on.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

[ -d "${1:-}" ] || fail "name the folder of the lines: growth.sh DATA"
data=$(realpath "$1") preset=${PRESET:-release} epochs=${EPOCHS:-2}
out=build/growth logs=docs/measurements/growth
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target train
mkdir -p "$out" "$logs"
rate=$(sed -n 's/^lr = //p' configs/rendered-crnn-mv3.conf)

# train_as GPUS TIMES RANKS
train_as() {
  local log=$1-$2.jsonl
  [ ! -f "$logs/$log" ] || return 0
  section "$1 GPUs, rate × $2"
  mpirun -np "$3" --bind-to none "build/$preset/bin/train" --config configs/rendered-crnn-mv3.conf --data "$data" --seed 1 \
    --epochs "$epochs" --shards "$1" --batch $((8 * $1)) --lr "$(awk "BEGIN { print $rate * $2 }")" \
    --save-dir "$out/$1-$2" --resume auto --metrics "$out/$log"
  grep -q '"event":"end","outcome":"completed"' "$out/$log" || fail "$out/$log is not the log of a complete run"
  grep -E '"event":"(epoch|end)"' "$out/$log" >"$logs/$log"
}

for times in 1 2 3; do train_as 1 "$times" 1 & done
for run in $(jobs -p); do wait "$run"; done
for times in 1 2 3; do train_as 24 "$times" 2; done

section "Results"
python3 - "$logs" <<'EOF'
import json, pathlib, sys
print("| GPUs, 8 lines each | rate × 1 | rate × 2 | rate × 3 |\n|---|---|---|---|")
for gpus in (1, 24):
    cells = []
    for times in (1, 2, 3):
        end = json.loads((pathlib.Path(sys.argv[1]) / f"{gpus}-{times}.jsonl").read_text().splitlines()[-1])
        cells.append(f"{100 * end['final_accuracy']:.2f} %, {end['final_ned']:.3f}")
    print(f"| {gpus} | " + " | ".join(cells) + " |")
EOF
