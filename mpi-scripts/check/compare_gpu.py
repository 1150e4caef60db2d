#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the training speed of lockstep with PyTorch's on one GPU, in turn, and prints a Markdown table of images per second.

  compare_gpu.py TRAIN [--device cuda] [--rounds N] [--steps N] [--case MODEL:BATCH]... [--out DIR]

TRAIN is lockstep's program. PyTorch is what this interpreter imports. Both use bf16 (PyTorch by autocast), channels last, and
synthetic data. PyTorch runs eagerly and compiled, in each mode of torch.compile in a first round and in the best one then.
A ratio is that of the medians of the rounds. With --device cpu the script itself can be tried where there is no GPU.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

CASES = ["resnet50:256", "resnet18:1024", "resnet20:128"]
DATASETS = {"resnet50": "synthetic-imagenet", "lenet": "synthetic-digits"}  # the others: synthetic-cifar
MODES = ["default", "reduce-overhead", "max-autotune"]
WINDOWS = 8  # measurements of a run, of which the first two do not count
SKIPPED = 2
BASELINE = pathlib.Path(__file__).resolve().parents[1] / "bench/ddp_baseline.py"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=pathlib.Path)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="of one measurement; by batch")
    parser.add_argument("--case", action="append", metavar="MODEL:BATCH", help="one of " + ", ".join(CASES))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/compare-gpu"))
    return parser.parse_args()


def run(command, log):
    with log.open("w") as file:
        result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=file, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed with {result.returncode}:\n{result.stdout}\n{log.read_text()[-3000:]}")
    return result.stdout


def rate(windows):
    return statistics.median(windows[SKIPPED:])


class Case:
    """One model and batch, on both sides."""

    def __init__(self, text, device, steps=None):
        self.model, batch = text.split(":")
        self.batch = int(batch)
        self.window = steps or max(5, 20000 // self.batch if self.model != "resnet50" else 20)
        self.steps = WINDOWS * self.window
        self.device = device

    def training(self, train, *options):
        """The command that trains with lockstep in bf16 and saves nothing."""
        return [train, "--device", self.device, "--precision", "bf16", "--model", self.model, "--batch", self.batch,
                "--dataset", DATASETS.get(self.model, "synthetic-cifar"), "--eval-interval", "never", "--warmup", 0,
                "--lr", 0.01, "--save-dir", "none", *options]

    def lockstep_command(self, train, kernels, metrics):
        """Kernel choices are measured where the file has none."""
        return self.training(train, "--epochs", 1000, "--steps", self.steps, "--log-every", 1, "--kernels", kernels,
                             "--metrics", metrics)

    def pytorch_command(self, mode):
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", 1, BASELINE, "--model",
                self.model, "--batch", self.batch, "--steps", self.steps, "--window", self.window, "--precision", "bf16",
                "--device", self.device, "--channels-last", *(["--compile", mode] if mode else [])]


def lockstep_windows(metrics, window):
    """The images per second of each window, from the file of --metrics: the median of its steps, since an epoch of these small
    data sets has few, of which the first one waits for its batch."""
    events = [json.loads(line) for line in metrics.read_text().splitlines()]
    rates = [event["images_per_second"] for event in events if event["event"] == "step"]
    windows = [statistics.median(rates[begin:begin + window]) for begin in range(0, len(rates) - window + 1, window)]
    if len(windows) <= SKIPPED:
        raise ValueError(f"{metrics} has {len(rates)} steps, too few for {SKIPPED + 1} windows of {window}")
    return windows


class Comparison:
    """A case, with its files in a folder."""

    def __init__(self, arguments, text):
        self.case = Case(text, arguments.device, arguments.steps)
        self.train, self.out = arguments.train, arguments.out

    def lockstep(self, name):
        """@return images per second"""
        model = self.case.model
        metrics, kernels = self.out / f"{model}-{name}.jsonl", self.out / f"{model}-kernels.txt"
        metrics.unlink(missing_ok=True)
        run(self.case.lockstep_command(self.train, kernels, metrics), self.out / "log.txt")
        return rate(lockstep_windows(metrics, self.case.window))

    def pytorch(self, mode):
        result = json.loads(run(self.case.pytorch_command(mode), self.out / "log.txt").splitlines()[-1])
        return rate(result["windows"])


def median(values):
    return statistics.median(values)


def compare(comparison, rounds):
    tried = {mode: comparison.pytorch(mode) for mode in MODES}
    best = max(tried, key=tried.get)
    ours, eager, compiled = [], [], []
    comparison.lockstep("first")  # measures kernels and records the choices
    for number in range(rounds):
        ours.append(comparison.lockstep(number))
        eager.append(comparison.pytorch(None))
        compiled.append(comparison.pytorch(best))
    case = comparison.case
    row = [f"`{case.model}`, batch {case.batch:,}", f"{median(ours):,.0f}", f"{median(eager):,.0f}",
           f"{median(compiled):,.0f} ({best})", f"{median(ours) / median(eager):.2f}", f"{median(ours) / median(compiled):.2f}"]
    print("| " + " | ".join(row) + " |", flush=True)


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    print("| images/s | lockstep | eager | `torch.compile` (best mode) | of eager | of compiled |\n|---|---|---|---|---|---|", flush=True)
    for text in arguments.case or CASES:
        compare(Comparison(arguments, text), arguments.rounds)


if __name__ == "__main__":
    main()
