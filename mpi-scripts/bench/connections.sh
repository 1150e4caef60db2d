#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All-reduces between two hosts of one rank each, with 1 and more connections between them, on links on which no connection gets more than a
# part of the rate, as in many clouds: each host's packets are shared out among 8 queues of 200 Mbit/s by the port of the rank that called.
# Prints the ratios of medians to those of one connection, by size. Needs what local-cluster.sh needs.
#   CONNECTIONS    ("2 4 8")
#   ROUNDS         of each number in turn (5)
#   RATE           of each queue (200mbit)
#   PRESET         the build to use (release)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release}
rounds=${ROUNDS:-5}
rate=${RATE:-200mbit}
read -ra numbers <<<"1 ${CONNECTIONS:-2 4 8}"
out=build/connections

# Rank 0, on host1, calls rank 1, so that its ports differ.
limit_queues() {
  local host queue
  for host in host1:sport host2:dport; do
    {
      echo "tc qdisc replace dev eth0 root handle 1: htb"
      for queue in 0 1 2 3 4 5 6 7; do
        echo "tc class replace dev eth0 parent 1: classid 1:1$queue htb rate $rate ceil $rate burst 64kb quantum 3000"
        printf 'tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip protocol 6 0xff match ip %s %d 0x000e flowid 1:1%d\n' \
          "${host#*:}" "$((2 * queue))" "$queue"
      done
    } | ssh "${host%:*}" bash -eu
  done
}

if [ "${1:-}" = --inside ]; then
  limit_queues
  for ((round = 0; round < rounds; ++round)); do
    for number in "${numbers[@]}"; do
      mpirun -H host1:1,host2:1 -np 2 "build/$preset/bin/comm-bench" --min 1M --max 64M --factor 8 --repetitions 5 --algorithm auto \
        --connections "$number" --json "$out/$number-$round.json" >/dev/null
    done
  done
  exit
fi

cmake --build "build/$preset" -j "$jobs" --target comm-bench
rm -rf "$out"
mkdir -p "$out"
mpi-scripts/local-cluster.sh run --hosts 2 "$PWD/mpi-scripts/bench/connections.sh" --inside

python3 - "$out" "${numbers[@]}" <<'REPORT'
import json
import pathlib
import statistics
import sys

folder, numbers = pathlib.Path(sys.argv[1]), sys.argv[2:]
times = {}
for number in numbers:
    for path in folder.glob(f"{number}-*.json"):
        for result in json.loads(path.read_text())["results"]:
            times.setdefault((number, result["bytes"]), []).append(result["median_us"])
medians = {key: statistics.median(values) for key, values in times.items()}
print(f"{'bytes':>10} {'µs, 1 connection':>18}" + "".join(f"{f'{number} ÷':>8}" for number in numbers[1:]))
for size in sorted({size for _, size in medians}):
    ratios = "".join(f"{medians[number, size] / medians['1', size]:8.2f}" for number in numbers[1:])
    print(f"{size:>10} {medians['1', size]:18.0f}{ratios}")
REPORT
