#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures what `train --shards --balance` makes of a slow rank: training throughput undisturbed, with rank 1 slowed, and with rank 1
# slowed and --balance, in turn. The slow rank sleeps FACTOR − 1 times as long as it computes. The ideal is the sum of the ranks'
# speeds: with all of N ranks but one undisturbed, (N − 1 + 1 ÷ FACTOR) ÷ N of the undisturbed throughput. Prints a table of medians
# over rounds; exit code 1 if the weights of the runs are not the same.
#   BASE_MS for each shard, every rank sleeps so many milliseconds beside what it computes, and rank 1 FACTOR times as many (10). Work
#           is a sleep then for the most part, so that other programs disturb it little. 0: ranks compute only
#   RANKS   (2), of one thread each; more than there are processors compute one after the other, and so gain nothing from balance
#   FACTOR  how many times as long rank 1 takes (2)
#   SHARDS  (16); BATCH samples of a step (32); STEPS of each run (120); ROUNDS (3)
#   PRESET  the build to use (release)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release} ranks=${RANKS:-2} factor=${FACTOR:-2} shards=${SHARDS:-16}
batch=${BATCH:-32} steps=${STEPS:-120} rounds=${ROUNDS:-3}
out=build/balance

[[ -d build/$preset ]] || cmake --preset "$preset"
cmake --build "build/$preset" --target train_odd_ranks
rm -rf "$out"
mkdir -p "$out"

# A name, how many times as long rank 1 takes, and options.
measure() {
  local name=$1
  SLOW_FACTOR=$2 BASE_MS=${BASE_MS:-10} mpirun --oversubscribe --bind-to none -np "$ranks" "build/$preset/tests/train_odd_ranks" --model uneven \
    --dataset synthetic-cifar --batch "$batch" --shards "$shards" --steps "$steps" --threads 1 --save-dir none \
    --eval-interval never --log-every 5 --metrics "$out/$name.json" "${@:3}" >>"$out/$name.txt" 2>&1 ||
    { tail -n 5 "$out/$name.txt" >&2 && fail "the run '$name' failed"; }
}

for ((round = 0; round < rounds; ++round)); do
  measure undisturbed 1
  measure slowed "$factor"
  measure balanced "$factor" --balance
done

python3 - "$out" "$ranks" "$factor" <<'EOF'
import json, pathlib, statistics, sys

folder, ranks, factor = pathlib.Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
ideal_share = (ranks - 1 + 1 / factor) / ranks


def runs(name):
    """[the events of each run]"""
    all_runs = []
    for line in (folder / f"{name}.json").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "start":
            all_runs.append([])
        all_runs[-1].append(event)
    return all_runs


def steady(run):
    """Images per second in the second half of a run, whose shards are where they stay."""
    windows = [event["images_per_second"] for event in run if event["event"] == "step"]
    return statistics.median(windows[len(windows) // 2:])


def whole(run):
    return next(event["images_per_second"] for event in run if event["event"] == "epoch")


names = ("undisturbed", "slowed", "balanced")
events = {name: runs(name) for name in names}
speed = {name: (statistics.median(map(steady, events[name])), statistics.median(map(whole, events[name]))) for name in names}
digests = {run[-1]["weights_sha256"] for name in names for run in events[name]}
print(f"{ranks} ranks, rank 1 slowed {factor:g} times; the ideal is {ideal_share:.1%} of undisturbed")
print(f"{'':22}{'second half of a run':>30}{'whole run':>30}")
for name, text in zip(names, ("undisturbed", "slowed", "slowed, --balance")):
    cells = [f"{now:,.0f} images/s, {now / (ideal_share * before):.1%}" for now, before in zip(speed[name], speed["undisturbed"])]
    print(f"{text:22}{cells[0]:>30}{cells[1]:>30}")
print("percentages are of the ideal")
moves = [[event["shards"] for event in run if event["event"] == "balance"] for run in events["balanced"]]
print("shards of the ranks, as they moved:", "; ".join(" → ".join(" ".join(map(str, of)) for of in run) or "never" for run in moves))
print("weights sha256:", *digests)
sys.exit(len(digests) != 1)
EOF
