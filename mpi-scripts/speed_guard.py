#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the speed of two builds: speed-guard.sh calls it.

  speed_guard.py BEFORE NOW DIR ROUNDS SECOND_LOOKS    folders with comm-bench and train; DIR is for files of results

Exit code 3 if anything is slower now by more than its bound allows, its fastest round beside the median
round before.
"""
import json
import pathlib
import statistics
import subprocess
import sys

# How many times as fast as before each must be at least.
STEPS, ALL_REDUCE = 0.85, 0.7
# Windows of steps in which caches fill and memory is allocated do not count.
SKIPPED_WINDOWS = 2
TWO_RANKS = ["mpirun", "-np", "2", "--bind-to", "none"]
BENCH = ["--op", "all_reduce", "--algorithm", "auto", "--min", "4", "--max", "4M", "--factor", "1024", "--seconds", "0.05"]
TRAIN = ["--threads", "1", "--eval-interval", "never", "--save-dir", "none"]
MODELS = {"lenet": ["--dataset", "synthetic-digits", "--batch", "64", "--steps", "60", "--log-every", "5"],
          "resnet20": ["--dataset", "synthetic-cifar", "--batch", "32", "--steps", "24", "--log-every", "2"]}


def run(command, file):
    file.unlink(missing_ok=True)
    done = subprocess.run(TWO_RANKS + [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=600, check=False)
    if done.returncode:
        sys.exit(f"error: exit code {done.returncode} of {' '.join(map(str, command))}:\n{done.stdout}")
    return file.read_text()


def reductions(programs, file, *options):
    """{bytes: operations in a second}, at the pace of the fastest repetition: a rank that waits for a processor makes a
    repetition a thousand times as long, and on a busy machine these are the most."""
    results = json.loads(run([programs / "comm-bench", *BENCH, *options, "--json", file], file))["results"]
    return {result["bytes"]: 1e6 / result["min_us"] for result in results}


def images_per_second(programs, file, model, precision):
    text = run([programs / "train", "--model", model, "--precision", precision, *MODELS[model], *TRAIN, "--metrics", file],
               file)
    events = map(json.loads, text.splitlines())
    return statistics.median([e["images_per_second"] for e in events if e["event"] == "step"][SKIPPED_WINDOWS:])


def has_bfloat16():
    return "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text()


def measure(programs, file):
    """{(what, unit, bound): how much in a second}, of one round"""
    found = {}
    for name, options in (("plain", []), ("prepared", ["--prepared"])):
        for size, rate in reductions(programs, file, *options).items():
            found[f"all-reduce of {size:,} B, {name}", "operations/s", ALL_REDUCE] = rate
    for model in MODELS:
        for precision in ["float32"] + ["bf16"] * has_bfloat16():
            found[f"{model}, {precision}", "images/s", STEPS] = images_per_second(programs, file, model, precision)
    return found


def show(rates):
    """Prints the table. Returns what is too slow: even the fastest round now does not come near the median round before. On a
    busy machine medians alone can be off by a factor, and of many rounds one is undisturbed."""
    slow = []
    print(f"\n{'':34} {'unit':12} {'before':>12} {'now':>12} {'medians':>8} {'at best':>8} {'bound':>6}")
    for what, unit, bound in rates["now"]:
        before, now = (rates[side][what, unit, bound] for side in ("before", "now"))
        usual = statistics.median(before)
        at_best = max(now) / usual
        if at_best < bound:
            slow.append(what)
        print(f"{what:34} {unit:12} {usual:12,.0f} {statistics.median(now):12,.0f} {statistics.median(now) / usual:8.2f} "
              f"{at_best:8.2f} {bound:6.2f}{'  slow' * (at_best < bound)}", flush=True)
    return slow


def main():
    programs = {"before": pathlib.Path(sys.argv[1]), "now": pathlib.Path(sys.argv[2])}
    file = pathlib.Path(sys.argv[3]) / "results.json"
    rounds, second_looks = map(int, sys.argv[4:])
    rates = {side: {} for side in programs}
    for look in range(1 + second_looks):
        for number in range(rounds):
            # Whoever comes second may find the machine warmer, so they change places.
            for side in sorted(programs, reverse=number % 2 == 1):
                for what, rate in measure(programs[side], file).items():
                    rates[side].setdefault(what, []).append(rate)
        slow = show(rates)
        if not slow:
            return
        print(f"{', '.join(slow)}: slow after {(look + 1) * rounds} rounds", flush=True)
    sys.exit(3)


main()
