#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""loading.py TRAIN JPEGS BINARY --pairs N --epochs N --model NAME --options="WORDS" PART...: see loading.sh."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

BATCH = 128  # of each rank
FIRST, LATER, RANKS = 1.10, 1.03, 0.97


class Run:
    """A run of train, which has started. Its user's and system's processor time count for all of its ranks."""

    def __init__(self, options, words, batch=BATCH, launcher=()):
        self.folder = tempfile.TemporaryDirectory()
        self.metrics = pathlib.Path(self.folder.name, "metrics.jsonl")
        self.log = open(pathlib.Path(self.folder.name, "log.txt"), "w+", encoding="utf-8")
        command = [*launcher, options.train, "--model", options.model, "--batch", batch, "--epochs", options.epochs, "--threads", 1,
                   "--augment", "crop,flip", "--eval-interval", "never", "--save-dir", "none", "--metrics", self.metrics, *words,
                   *options.options.split()]
        self.process = subprocess.Popen([str(word) for word in command], stdout=self.log, stderr=self.log)

    def end(self):
        """Waits. The seconds of each epoch, those of them that it waited for data, and all of the processor."""
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode != 0:
            self.log.seek(0)
            sys.exit(f"{' '.join(self.process.args)}\nended with {self.process.returncode}:\n{self.log.read()[-2000:]}")
        events = [json.loads(line) for line in self.metrics.read_text(encoding="utf-8").splitlines()]
        epochs = [event for event in events if event["event"] == "epoch"]
        self.folder.cleanup()
        return {"seconds": [epoch["seconds"] for epoch in epochs], "waited": [epoch["data_wait_seconds"] for epoch in epochs],
                "processor": usage.ru_utime + usage.ru_stime}


def shown(ratios):
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def compare_pairs(options):
    """JPEGs and the binary file in turn; which one is first alternates."""
    forms = {"JPEGs": ("--data", options.jpegs), "binary": ("--dataset", "cifar10", "--data-dir", options.binary)}
    first, later, processor, waited = [], [], [], {name: [] for name in forms}
    for pair in range(options.pairs):
        results = {}
        for name in list(forms)[::1 if pair % 2 == 0 else -1]:
            results[name] = Run(options, (*forms[name], "--seed", pair + 1)).end()
            waited[name].append(sum(results[name]["waited"]))
        jpegs, binary = results["JPEGs"], results["binary"]
        first.append(jpegs["seconds"][0] / binary["seconds"][0])
        later.append(statistics.mean(jpegs["seconds"][1:]) / statistics.mean(binary["seconds"][1:]))
        processor.append(jpegs["processor"] / binary["processor"])
        print(f"pair {pair + 1}: JPEGs {jpegs['seconds'][0]:.1f} s, then {statistics.mean(jpegs['seconds'][1:]):.1f} s an epoch; "
              f"binary {binary['seconds'][0]:.1f} s, then {statistics.mean(binary['seconds'][1:]):.1f} s; "
              f"processor {jpegs['processor']:.1f} s and {binary['processor']:.1f} s", flush=True)
    print(f"first epoch, JPEGs ÷ binary:          {shown(first)}, at most {FIRST}")
    print(f"later epochs, JPEGs ÷ binary:         {shown(later)}, at most {LATER}")
    print(f"processor time of the whole run:      {shown(processor)}")
    print(f"waiting for data, seconds of a run:   JPEGs {statistics.median(waited['JPEGs']):.2f}, "
          f"binary {statistics.median(waited['binary']):.2f}", flush=True)
    return statistics.median(first) <= FIRST and statistics.median(later) <= LATER


def compare_ranks(options):
    """Two ranks, whose steps have twice the samples, and two runs at the same time, one on each half of the processors."""
    processors = sorted(os.sched_getaffinity(0))
    halves = processors[:len(processors) // 2], processors[len(processors) // 2:]
    data = ("--data", options.jpegs)
    first, later, processor = [], [], []
    for pair in range(options.pairs):
        both = Run(options, data, 2 * BATCH, ("mpirun", "-np", "2", "--bind-to", "core")).end()
        runs = [Run(options, (*data, "--seed", 1 + number), BATCH, ("taskset", "-c", ",".join(map(str, half))))
                for number, half in enumerate(halves)]
        alone = [run.end() for run in runs]
        first.append(1 / sum(both["seconds"][0] / each["seconds"][0] for each in alone))
        later.append(1 / sum(sum(both["seconds"][1:]) / sum(each["seconds"][1:]) for each in alone))
        processor.append(2 * both["processor"] / sum(each["processor"] for each in alone))  # they have twice the samples
        print(f"pair {pair + 1}: two ranks {both['seconds'][0]:.1f} s, then {statistics.mean(both['seconds'][1:]):.1f} s an epoch; "
              "alone " + " and ".join(f"{each['seconds'][0]:.1f} s, then {statistics.mean(each['seconds'][1:]):.1f} s"
                                      for each in alone), flush=True)
    print(f"images per second, two ranks ÷ two runs, first epoch:  {shown(first)}, at least {RANKS}")
    print(f"images per second, two ranks ÷ two runs, later epochs: {shown(later)}, at least {RANKS}")
    print(f"processor time of a sample, two ranks ÷ two runs:      {shown(processor)}", flush=True)
    return statistics.median(first) >= RANKS and statistics.median(later) >= RANKS


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("train", "jpegs", "binary"):
        parser.add_argument(name)
    parser.add_argument("--pairs", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--options", default="")
    parser.add_argument("parts", nargs="+")
    options = parser.parse_args()
    if options.epochs < 2:
        sys.exit("error: EPOCHS must be at least 2, the first and a later one")
    print(f"{options.model}, {options.pairs} pairs of {options.epochs} epochs {options.options}")
    for folder in (options.jpegs, options.binary):  # files come into memory before anything is measured
        for file in pathlib.Path(folder).rglob("*.*"):
            file.read_bytes()
    parts = {"pairs": compare_pairs, "ranks": compare_ranks}
    results = [parts[part](options) for part in options.parts]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
