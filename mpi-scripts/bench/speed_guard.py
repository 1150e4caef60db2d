#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the speed of two builds: speed-guard.sh calls it.

  speed_guard.py BEFORE NOW DIR ROUNDS SECOND_LOOKS    folders with comm-bench and train; DIR is for files of results

Exit code 3 if anything is slower now by more than its bound allows, by the median over rounds of their ratio
and by its fastest round beside the median before.
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
    """{size: operations in a second}, at the pace of the fastest repetition: a rank that waits for a processor makes a
    repetition a thousand times as long, and on a busy machine these are the most."""
    results = json.loads(run([programs / "comm-bench", *BENCH, *options, "--json", file], file))["results"]
    return {f", {result['bytes']:,} B": 1e6 / result["min_us"] for result in results}


def images_per_second(programs, file, model, precision):
    text = run([programs / "train", "--model", model, "--precision", precision, *MODELS[model], *TRAIN, "--metrics", file],
               file)
    events = map(json.loads, text.splitlines())
    return statistics.median([e["images_per_second"] for e in events if e["event"] == "step"][SKIPPED_WINDOWS:])


def has_bfloat16():
    return "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text()


def measurements():
    """[(what, unit, bound, function of programs and file that returns {suffix of what: how much in a second})]"""
    for name, options in (("plain", []), ("prepared", ["--prepared"])):
        yield f"all-reduce, {name}", "operations/s", ALL_REDUCE, lambda *where, o=options: reductions(*where, *o)
    for model in MODELS:
        for precision in ["float32"] + ["bf16"] * has_bfloat16():
            yield (f"{model}, {precision}", "images/s", STEPS,
                   lambda *where, m=model, p=precision: {"": images_per_second(*where, m, p)})


def show(rates):
    """Prints the table. Returns what is too slow, which is what both ratios say. Virtual machines reduce small messages at two
    speeds for seconds at a time, more than a factor of 2 apart, which spoils some pairs of a round or the best of a side."""
    slow = []
    print(f"\n{'':34} {'unit':12} {'before':>12} {'now':>12} {'ratio':>8} {'at best':>8} {'bound':>6}")
    for (what, unit, bound), sides in rates.items():
        before, now = sides["before"], sides["now"]
        usual = statistics.median(before)
        ratio = statistics.median(second / first for first, second in zip(before, now))
        at_best = max(now) / usual
        too_slow = max(ratio, at_best) < bound
        if too_slow:
            slow.append(what)
        print(f"{what:34} {unit:12} {usual:12,.0f} {statistics.median(now):12,.0f} {ratio:8.2f} {at_best:8.2f} {bound:6.2f}"
              f"{'  slow' * too_slow}", flush=True)
    return slow


def main():
    programs = {"before": pathlib.Path(sys.argv[1]), "now": pathlib.Path(sys.argv[2])}
    file = pathlib.Path(sys.argv[3]) / "results.json"
    rounds, second_looks = map(int, sys.argv[4:])
    rates = {}
    for look in range(1 + second_looks):
        for number in range(rounds):
            for what, unit, bound, measure in measurements():
                # One right after the other; and whoever comes second may find the machine warmer, so they change places.
                for side in sorted(programs, reverse=number % 2 == 1):
                    for suffix, rate in measure(programs[side], file).items():
                        rates.setdefault((what + suffix, unit, bound), {"before": [], "now": []})[side].append(rate)
        slow = show(rates)
        if not slow:
            return
        print(f"{', '.join(slow)}: slow after {(look + 1) * rounds} rounds", flush=True)
    sys.exit(3)


main()
