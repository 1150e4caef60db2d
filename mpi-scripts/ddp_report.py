#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums up the rounds of compare-ddp.sh: a Markdown table, and the same as JSON.

  ddp_report.py DIR BIND     reads DIR/MODEL-lockstep-ROUND.jsonl (train --metrics) and DIR/MODEL-VARIANT-ROUND.json,
                             writes DIR/result.json
"""
import json
import os
import pathlib
import statistics
import sys

MODELS = ["lenet", "resnet20"]
VARIANTS = {"defaults": "DDP over Gloo, defaults", "channels-last": "DDP, channels last",
            "compiled": "DDP, channels last, compiled", "threads": "1 rank of 2 threads, channels last, compiled"}
# First windows, in which caches fill and memory is allocated, do not count, on either side.
SKIPPED_WINDOWS = 2


def rate(windows, file):
    if len(windows) <= SKIPPED_WINDOWS:
        sys.exit(f"error: {file} has {len(windows)} windows and the first {SKIPPED_WINDOWS} do not count: raise STEPS")
    return statistics.median(windows[SKIPPED_WINDOWS:])


def read_lockstep(file):
    events = [json.loads(line) for line in file.read_text().splitlines()]
    start = next(event for event in events if event["event"] == "start")
    return rate([event["images_per_second"] for event in events if event["event"] == "step"], file), start["version"]


def read_ddp(file):
    result = json.loads(file.read_text())
    return rate(result["windows"], file), result["torch"]


def rounds_of(directory, pattern, read):
    files = sorted(directory.glob(pattern), key=lambda file: int(file.stem.rsplit("-", 1)[1]))
    rates, versions = zip(*[read(file) for file in files])
    return rates, versions[-1]


def compare(directory, model):
    ours, commit = rounds_of(directory, f"{model}-lockstep-*.jsonl", read_lockstep)
    theirs, version = {}, None
    for variant in VARIANTS:
        if list(directory.glob(f"{model}-{variant}-*.json")):
            theirs[variant], version = rounds_of(directory, f"{model}-{variant}-*.json", read_ddp)
    medians = {variant: statistics.median(rates) for variant, rates in theirs.items()}
    return {"model": model, "lockstep": ours, "pytorch": theirs, "lockstep_median": statistics.median(ours),
            "ratios": {variant: statistics.median(ours) / median for variant, median in medians.items()},
            "best": max(medians, key=medians.get), "lockstep_commit": commit, "torch": version}


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} hardware threads"


def spread(rates):
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f} – {max(rates):,.0f})"


def print_table(models, bind):
    first = models[0]
    print(f"{processor()}; PyTorch {first['torch']}; lockstep {first['lockstep_commit']}")
    print(f"2 ranks of 1 thread unless stated, total batch 128, bound to: {bind}; rounds: {len(first['lockstep'])}")
    print("images/s, median of the rounds' medians (least – most); lockstep's with data loading, PyTorch's without\n")
    print("| model | | images/s | lockstep ÷ this |\n|---|---|---|---|")
    for row in models:
        print(f"| {row['model']} | lockstep | {spread(row['lockstep'])} | |")
        for variant, rates in row["pytorch"].items():
            mark = ", its best" if variant == row["best"] else ""
            print(f"| | {VARIANTS[variant]}{mark} | {spread(rates)} | {row['ratios'][variant]:.2f} |")


def main(arguments):
    if len(arguments) != 2:
        sys.exit(__doc__)
    directory, bind = pathlib.Path(arguments[0]), arguments[1]
    models = [compare(directory, model) for model in MODELS if list(directory.glob(f"{model}-lockstep-*.jsonl"))]
    if not models:
        sys.exit(f"error: there are no rounds in {directory}")
    print_table(models, bind)
    result = {"processor": processor(), "bind": bind, "batch": 128, "models": models}
    (directory / "result.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
