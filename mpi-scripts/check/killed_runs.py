#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills random ranks of runs, again and again. Each run must end with the weights of an undisturbed one.

Runs are supervised (supervise.sh), so that each kill is followed by a restart from the last checkpoint. With --in-place they go
on in place (train --min-ranks) until one rank is left, for which the MPI library needs ULFM. Prints how often runs have gone on,
and the time from a kill to the next step. mpi-scripts/check/soak.sh calls this."""
import argparse
import itertools
import json
import os
import pathlib
import random
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HANGS_AFTER = 120  # seconds
MODEL = "--dataset synthetic-digits --model lenet --batch 64 --shards 8 --threads 1 --log-every {} --save-steps 20 --keep 1 --epochs 1000"


def fail(text):
    sys.exit(f"error: {text}")


class Run:
    """A run of train in a folder of its own."""

    def __init__(self, arguments, folder, ranks, steps, more=(), supervisor=()):
        self.folder = folder / "run"
        self.program = os.path.basename(arguments.train).encode()
        self.output = folder / "output"
        # A restart takes seconds, and going on in place a fraction of one.
        self.pause, log_every = (0.05, 10) if supervisor else (0.002, 1)
        options = shlex.split(arguments.options.format(log_every))
        words = [*supervisor, *shlex.split(arguments.mpiexec), "-np", str(ranks), arguments.train, *options, "--steps", str(steps),
                 "--save-dir", str(self.folder), *more]
        with self.output.open("w") as output:
            self.job = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        self.begin = time.monotonic()

    def events(self):
        try:
            lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        except OSError:
            return []
        events = []
        for line in lines:
            try:
                events.append(json.loads(line))
            except ValueError:  # it is being written, or a kill has cut it off
                continue
        return events

    def ranks(self):
        """The processes of the living ranks."""
        found = []
        for process in pathlib.Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:  # it has ended meanwhile
                continue
            if os.path.basename(words[0]) == self.program and str(self.folder).encode() in words and state != "Z":
                found.append(int(process.name))
        return found

    def wait_until(self, condition, what, within=HANGS_AFTER):
        end = time.monotonic() + within
        while not condition():
            if time.monotonic() > end:
                os.killpg(self.job.pid, signal.SIGKILL)
                fail(f"{what} has not happened within {within} s:\n{self.output.read_text()}")
            time.sleep(self.pause)

    def end(self):
        """The seconds that it took, and its weights."""
        self.wait_until(lambda: self.job.poll() is not None, "the end of a run", 20 * HANGS_AFTER)
        text = self.output.read_text()
        weights = re.findall(r"^weights sha256 (\w+)", text, re.MULTILINE)
        if self.job.returncode != 0 or not weights:
            fail(f"exit code {self.job.returncode}:\n{text}")
        return time.monotonic() - self.begin, weights[-1]


SUPERVISOR = [str(pathlib.Path(__file__).resolve().parents[1] / "supervise.sh"), "--max-restarts", "100000", "--"]


def steps_after(run, event_of_going_on, times):
    """How many steps the run has reported since it went on so often."""
    seen, steps = 0, 0
    for event in run.events():
        if event["event"] == event_of_going_on:
            seen, steps = seen + 1, 0
        steps += event["event"] == "step"
    return steps if seen >= times else 0


def disturbed(arguments, steps, whole, times):
    """@param times  gets the seconds from each kill to the next step"""
    with tempfile.TemporaryDirectory() as folder:
        if arguments.in_place:
            run = Run(arguments, pathlib.Path(folder), arguments.ranks, steps, ["--min-ranks", "1"])
            going_on, kills = "recovery", range(1, arguments.ranks)
        else:
            run = Run(arguments, pathlib.Path(folder), arguments.ranks, steps, supervisor=SUPERVISOR)
            going_on, kills = "start", itertools.count(2)  # the first start follows no kill
            run.wait_until(lambda: list(run.folder.glob("checkpoints/step-*")), "the first checkpoint")  # else it gets another folder
        run.wait_until(lambda: steps_after(run, going_on, 0) > 0, "the first step")
        for count in kills:
            time.sleep(random.uniform(0.5, 1.5) * arguments.every)
            living = run.ranks()
            if run.job.poll() is not None or len(living) < 2:
                break
            os.kill(random.choice(living), signal.SIGKILL)
            killed_at = time.monotonic()
            run.wait_until(lambda: steps_after(run, going_on, count) > 0 or run.job.poll() is not None, "a step after a kill")
            if run.job.poll() is None:
                times.append(time.monotonic() - killed_at)
        _, weights = run.end()
        if weights != whole:
            fail(f"the weights are {weights}, and {whole} without kills:\n{run.output.read_text()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", required=True)
    parser.add_argument("--mpiexec", default="mpirun --oversubscribe --bind-to none")
    parser.add_argument("--in-place", action="store_true", help="runs go on in place; --mpiexec needs --with-ft ulfm")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--every", type=float, default=15, help="seconds from one kill to the next, on average")
    parser.add_argument("--seconds", type=float, default=60, help="how long runs are started")
    parser.add_argument("--least", type=int, default=200, help="steps of a run, or more where that is needed for the kills")
    parser.add_argument("--options", default=MODEL, help="of train; {} is replaced by the steps between two events")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Run(arguments, pathlib.Path(folder), arguments.ranks, arguments.least // 2).end()  # warms up
    with tempfile.TemporaryDirectory() as folder:
        run = Run(arguments, pathlib.Path(folder), arguments.ranks, arguments.least)
        run.end()
        stamps = next(event["seconds"] for event in run.events() if event["event"] == "end")
    # In place, ranks are killed until one is left. A supervised run is killed a dozen times or more.
    kills = arguments.ranks + 0.5 if arguments.in_place else 12
    steps = max(arguments.least, int(arguments.least / stamps * kills * arguments.every))
    with tempfile.TemporaryDirectory() as folder:
        _, whole = Run(arguments, pathlib.Path(folder), arguments.ranks, steps).end()
    times, runs, begin = [], 0, time.monotonic()
    while time.monotonic() - begin < arguments.seconds:
        disturbed(arguments, steps, whole, times)
        runs += 1
        spread = f": median {statistics.median(times):.2f} s, longest {max(times):.2f} s" if times else ""
        print(f"{runs} runs of {steps} steps, {len(times)} recoveries, the same weights; from a kill to the next step{spread}", flush=True)


if __name__ == "__main__":
    main()
