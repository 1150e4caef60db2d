#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the metrics of texts with those of rapidfuzz; texts.sh says how.

    texts.py TRAIN FOLDER    FOLDER has lines/ and lines--lmdb/, and gets everything else
"""
import json
import os
import pathlib
import subprocess
import sys

from rapidfuzz.distance import Levenshtein

TRAIN, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
LISTS, DATABASES = FOLDER / "lines", FOLDER / "lines--lmdb"
TOLERANCE = 1e-12
MODEL = ["--model", "crnn-mv3", "--dict-space"]


def add_spaces():
    """Puts a space into every third text that is evaluated, which does not count."""
    path = LISTS / "rec_gt_val.txt"
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{line[:-1]} {line[-1]}\n" if i % 3 == 0 else f"{line}\n" for i, line in enumerate(lines)))


def train(ranks, *arguments):
    """Runs train. @return the last event of its metrics"""
    metrics = FOLDER / "metrics.json"
    metrics.unlink(missing_ok=True)
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks), TRAIN, "--threads", "1", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    if result.returncode:
        sys.exit(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return json.loads(metrics.read_text().splitlines()[-1]) if metrics.exists() else None


def evaluation(ranks, data):
    event = train(ranks, "--data", data, *MODEL, "--resume", FOLDER / "run", "--eval-only", "--save-dir", "none", "--metrics",
                  FOLDER / "metrics.json")
    return {name: event[f"final_{name}"] for name in ("accuracy", "ned")}


def judged(predictions):
    """Returns what rapidfuzz says about the texts that were predicted."""
    read = {pathlib.Path(one["path"]).name: one["text"].replace(" ", "") for one in map(json.loads, predictions.open())}
    written = dict(line.split("\t") for line in (LISTS / "rec_gt_val.txt").read_text().splitlines())
    pairs = [(read[pathlib.Path(path).name], text.replace(" ", "")) for path, text in written.items()]
    distance = sum(Levenshtein.normalized_distance(*pair) for pair in pairs)
    return {"accuracy": sum(a == b for a, b in pairs) / len(pairs), "ned": 1 - distance / len(pairs)}


def main():
    add_spaces()
    train(2, "--data", LISTS, *MODEL, "--img", "32x64", "--epochs", "40", "--batch", "16", "--optimizer", "adamw", "--weight-decay", "0",
          "--lr", "0.002", "--warmup", "1", "--eval-interval", "never", "--save-dir", FOLDER / "run")
    ours = [evaluation(ranks, LISTS) for ranks in (1, 2, 3)]
    train(2, "--resume", FOLDER / "run", "--predict", LISTS / "val", "--save-dir", FOLDER / "out")
    theirs = judged(FOLDER / "out/predictions.jsonl")
    distance = max(abs(ours[0][name] - theirs[name]) for name in theirs)
    databases = evaluation(2, DATABASES)
    same = ours[0] == ours[1] == ours[2] and distance <= TOLERANCE and databases == ours[0]
    print(f"on 1, 2, 3 ranks {ours}\nfrom databases   {databases}\nrapidfuzz        {theirs}\n{'the same' if same else 'DIFFERENT'}")
    sys.exit(not same)


if __name__ == "__main__":
    main()
