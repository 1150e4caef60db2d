#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The example paced_training: records how long a step takes, and then sleeps as long on several ranks.
#   paced_training.sh RANKS PROGRAM LAUNCHER...      LAUNCHER... ends in the flag for the number of ranks
set -euo pipefail

ranks=$1 program=$2
launcher=("${@:3}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# train NAME RANKS BATCH   8 samples for each step of a rank, whose times are in NAME.jsonl
train() {
  "${launcher[@]}" "$2" "$program" --ops paced --batch "$3" --steps 12 --threads 1 --eval-interval never --save-dir none \
    --log-every 1 --metrics "$1.jsonl"
}

# compute NAME   the median of the seconds in which rank 0 computes in a step
compute() {
  python3 -c 'import json, statistics, sys
events = [json.loads(line) for line in open(sys.argv[1])]
print(statistics.median(event["compute_seconds"] for event in events if event["event"] == "step"))' "$1.jsonl"
}

PACE_RECORD=pace.txt train recorded 1 8
PACE=pace.txt train paced "$ranks" $((8 * ranks)) | tee log
grep -q 'last loss 0.0000$' log || { echo "a run that computes nothing has a loss"; exit 1; }
recorded=$(compute recorded) paced=$(compute paced)
echo "compute: $recorded s recorded, $paced s paced"
awk "BEGIN { exit !($paced > 0.5 * $recorded) }" || { echo "it did not sleep as long as it took to compute"; exit 1; }

if PACE=pace.txt train other 1 9 2>log; then echo "a run of more samples was accepted"; exit 1; fi
grep -q 'PACE: it has no time of ".*"; record with the same samples for each rank' log
