#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what options of train cost: runs without them and with them, in turn, for some rounds.

  option_cost.py --train build/release/bin/train -- --stragglers

Prints images/s of both, by the medians of a run's windows and of rounds, and the median ratio of a round with its quartiles. The
same program is compared with itself, too, which tells how far chance alone takes such a ratio from 1."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

# Windows of steps in which caches fill and memory is allocated do not count.
SKIPPED_WINDOWS = 2


def images_per_second(arguments, options):
    with tempfile.TemporaryDirectory() as folder:
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(arguments.ranks), arguments.train,
                   *arguments.model.split(), "--threads", "1", "--steps", str(arguments.steps), "--log-every", "20",
                   "--eval-interval", "never", "--save-dir", "none", "--metrics", str(metrics), *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
        if done.returncode:
            sys.exit(f"error: exit code {done.returncode} of {' '.join(command)}:\n{done.stdout}")
        windows = [e["images_per_second"] for e in map(json.loads, metrics.read_text().splitlines()) if e["event"] == "step"]
        return statistics.median(windows[SKIPPED_WINDOWS:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True)
    parser.add_argument("--model", default="--model lenet --dataset synthetic-digits --batch 128", help="options of both")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("options", nargs="+")
    arguments = parser.parse_args()
    kinds = {"without": [], "without, again": [], " ".join(arguments.options): arguments.options}
    rates = {kind: [] for kind in kinds}
    for round_ in range(arguments.rounds):
        order = list(kinds)
        for kind in order[round_ % 3:] + order[:round_ % 3]:
            rates[kind].append(images_per_second(arguments, kinds[kind]))
    for kind, found in rates.items():
        ratios = [rate / without for rate, without in zip(found, rates["without"])]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"{kind:24} {statistics.median(found):10,.0f} images/s   ratio {middle:.4f} ({low:.4f} to {high:.4f})")


if __name__ == "__main__":
    main()
