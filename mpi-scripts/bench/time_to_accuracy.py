#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums up what time-to-accuracy.sh has measured: time_to_accuracy.py DIR ACCURACY

DIR has a log PROGRAM-WAY-ROUND.jsonl of each run, as train --metrics writes it. The time of a run is that of its training and
evaluations up to the first evaluation with at least this accuracy; that of a program is the time of its faster way.
"""
import json
import pathlib
import statistics
import sys


def seconds_to(file, accuracy):
    """The seconds and the epoch of the first evaluation with this accuracy."""
    seconds = 0
    for line in file.read_text().splitlines():
        event = json.loads(line)
        if event["event"] != "epoch":
            continue
        seconds += event["seconds"] + event["evaluation_seconds"]
        if event["val_accuracy"] >= accuracy:
            return seconds, event["epoch"]
    sys.exit(f"error: {file} has no evaluation with an accuracy of {accuracy:.1%}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, accuracy = pathlib.Path(sys.argv[1]), float(sys.argv[2])
    runs = {}
    for file in sorted(folder.glob("*-*-*.jsonl")):
        program, way, _ = file.stem.split("-")
        runs.setdefault(program, {}).setdefault(way, []).append(seconds_to(file, accuracy))
    print(f"| ranks × threads | seconds to {accuracy:.1%} (least – most) | epochs |\n|---|---|---|")
    medians = {}
    for program, ways in runs.items():
        for way, found in ways.items():
            seconds = [one[0] for one in found]
            medians.setdefault(program, []).append(statistics.median(seconds))
            epochs = ", ".join(str(one[1]) for one in found)
            print(f"| {program}, {way} | {statistics.median(seconds):.1f} ({min(seconds):.1f} – {max(seconds):.1f}) | {epochs} |")
    print(f"\nPyTorch ÷ lockstep, of their faster ways: {min(medians['pytorch']) / min(medians['lockstep']):.2f}")


if __name__ == "__main__":
    main()
