#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how training scales: see mpi-scripts/scaling.sh, which calls it.

  scaling.py measure|pace|simulate --train TRAIN --out DIR --configuration FILE --hosts N,N... -- OPTION...
  scaling.py tables      prints docs/measurements/scaling.csv as Markdown
"""
import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS, PUBLISHED = ROOT / "docs/measurements/scaling.csv", ROOT / "docs/measurements/published_scaling.csv"
COLUMNS = ["kind", "model", "hosts", "seconds", "metric", "published", "ring", "rate", "acceleration", "efficiency", "polled", "machine"]
HEADERS = {
    "measured": ["model", "hosts", "training time", "metric", "acceleration", "efficiency"],
    "paced": ["model", "hosts", "published", "ring after backward", "rate of links", "lockstep", "efficiency",
              "with `--progress-thread no`", "efficiency"],
    "simulated": ["model", "hosts", "time of a step", "acceleration", "efficiency"]}
STEPS, WARM = 30, 8  # of a paced run, and how many of them do not count
NEAR, TRIES = 0.02, 7  # how near the factor of the ring has to be, and the number of rates that are tried for it
SIMULATED = (4, 16, 64, 256)
METRICS = ("final_map", "final_miou", "final_accuracy")


def rows_of(path):
    if not path.exists():
        return []
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def run(command, log, environment=None):
    """Runs a command with its output in a log. Ends this program where it fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [str(word) for word in command]
    with log.open("w", encoding="utf-8") as output:
        code = subprocess.run(words, stdout=output, stderr=output, env={**os.environ, **(environment or {})}, check=False).returncode
    if code != 0:
        sys.exit(f"error: {' '.join(words)}\nended with {code}; the end of {log}:\n{log.read_text(encoding='utf-8')[-1500:]}")


def events_of(metrics):
    return [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()] if metrics.exists() else []


def is_complete(events):
    return any(event["event"] == "end" and event["outcome"] == "completed" for event in events)


def settings(configuration):
    lines = (line.split("#")[0].split("=", 1) for line in configuration.read_text(encoding="utf-8").splitlines())
    return {words[0].strip(): words[1].strip() for words in lines if len(words) == 2}


class Scaling:
    """The runs of one configuration."""

    def __init__(self, arguments):
        self.train, self.out, self.options = arguments.train.resolve(), arguments.out.resolve(), arguments.options
        self.configuration = arguments.configuration
        self.hosts = [int(word) for word in arguments.hosts.split(",")]
        self.settings = settings(self.configuration)
        options = dict(zip(self.options, self.options[1:]))
        self.model = options.get("--model", self.settings["model"])
        self.folder = self.out / f"{self.configuration.stem}-{self.model}"

    def words(self, program, metrics, *more):
        return [program, "--config", self.configuration, "--save-dir", "none", "--metrics", metrics, *self.options, *more]

    def measure(self):
        """Whole trainings with the batch of the configuration."""
        names = os.environ.get("LOCKSTEP_HOSTS", "").split(",")
        result, first = [], None
        for hosts in self.hosts:
            metrics = self.folder / f"hosts-{hosts}.jsonl"
            if not is_complete(events_of(metrics)):
                metrics.unlink(missing_ok=True)
                places = ["-H", ",".join(names[:hosts])] if names != [""] else []
                run(["mpirun", *places, "-np", hosts, "--bind-to", "none", *self.words(self.train, metrics)],
                    self.folder / f"hosts-{hosts}.txt")
            events = events_of(metrics)
            seconds = sum(event["seconds"] for event in events if event["event"] == "epoch")
            end = events[-1]
            metric = next(name for name in METRICS if name in end)
            first = first or (hosts, seconds)
            acceleration = first[1] / seconds
            result.append({"kind": "measured", "hosts": hosts, "seconds": f"{seconds:.1f}",
                           "metric": f"{metric.removeprefix('final_')} {end[metric]:.4f}", "acceleration": f"{acceleration:.2f}",
                           "efficiency": f"{acceleration * first[0] / hosts:.3f}"})
        return result

    def batch(self, hosts):
        return ["--batch-per-rank" if "batch-per-rank" in self.settings else "--batch",
                int(self.settings.get("batch-per-rank", 0)) or hosts * int(self.settings["batch"])]

    def step(self, name, program, hosts, rate=None, more=(), environment=None):
        """The seconds of a step on so many hosts, which are namespaces with links of this rate in bits per second."""
        metrics = self.folder / f"{name}.jsonl"
        metrics.unlink(missing_ok=True)
        launcher = ["mpirun", "-np", hosts, "--oversubscribe", "--bind-to", "none"]
        if rate is not None:
            launcher = [ROOT / "mpi-scripts/local-cluster.sh", "run", "--hosts", hosts, "--rate", f"{rate / 1000:.0f}kbit", "--per-host", 1]
        words = ["--steps", STEPS, "--warmup", 0, "--drop-last", "--threads", 1, "--eval-interval", "never", "--log-every", 1]
        run([*launcher, *self.words(program, metrics, *self.batch(hosts), *words, *more)], self.folder / f"{name}.txt", environment)
        parts = ("data_wait_seconds", "compute_seconds", "exposed_communication_seconds")
        steps = [sum(event[part] for part in parts) for event in events_of(metrics) if event["event"] == "step"]
        return statistics.median(steps[WARM:])

    def buckets(self):
        """When backward completes each bucket of gradients, in seconds from the step's first operator, and their bytes; and the
        seconds in which a step computes. From a run on two ranks."""
        trace = self.folder / "trace.json"
        self.step("trace", self.train, 2, more=["--trace", trace])
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
        tracks = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name" and e["pid"] == 0}
        of = lambda track: [e for e in events if e["ph"] == "X" and e["pid"] == 0 and e["tid"] == tracks[track]]  # noqa: E731
        compute, buckets = of("compute"), [e for e in of("communication") if e["name"].startswith("bucket ") and "bytes" in e["args"]]
        starts = [i for i, e in enumerate(compute) if e["name"] == "wait for data"] + [len(compute)]
        candidates = []
        for first, end in zip(starts[WARM:], starts[WARM + 1:]):
            spans = [e for e in compute[first:end] if not e["name"].startswith("wait")]
            begin, last = spans[0]["ts"], spans[-1]["ts"] + spans[-1]["dur"]
            waits = sum(e["dur"] for e in compute[first + 1:end] if e["name"].startswith("wait"))
            found = [((e["ts"] - begin) / 1e6, e["args"]["bytes"]) for e in buckets if begin <= e["ts"] <= last]
            candidates.append(((last - begin - waits) / 1e6, found))
        return sorted(candidates)[len(candidates) // 2]

    @staticmethod
    def rate_for(factor, rate, factor_at):
        """A rate of links at which a step takes `factor` times as long, nearly, and how many times it does. The time beyond the
        computing is in inverse proportion to the rate, but for bursts and noise."""
        too_low, too_high = 0, float("inf")
        tried = []
        for _ in range(TRIES):
            found = factor_at(rate)
            tried.append((abs(found / factor - 1), rate, found))
            if tried[-1][0] < NEAR:
                break
            too_low, too_high = (max(too_low, rate), too_high) if found > factor else (too_low, min(too_high, rate))
            rate *= max(found - 1, 0.1 * (factor - 1)) / (factor - 1)
            if not too_low < rate < too_high:
                rate = (too_low * too_high) ** 0.5
        return min(tried)[1:]

    def pace(self):
        """Each published acceleration for which the model stands."""
        program, pace = self.out / "examples/paced_training", self.folder / "pace.txt"
        paced = {"PACE": str(pace)}
        self.step("record", program, 1, more=["--ops", "paced"], environment={"PACE_RECORD": str(pace)})
        alone = self.step("alone", program, 1, more=["--ops", "paced"], environment=paced)
        gradients = sum(size for _, size in self.buckets()[1])
        wanted = [row for row in rows_of(PUBLISHED) if row["ours"] == self.model]
        if not wanted:
            sys.exit(f"error: {self.model} stands for no model in {PUBLISHED}; with --pace CONFIG has to name one that does")
        ring = ["--algorithm", "ring", "--bucket-mb", "all"]
        measured, result = {}, []
        for row in wanted:
            hosts, published = int(row["hosts"]), float(row["acceleration"])
            if (hosts, published) not in measured:
                factor = hosts / published
                def factor_at(rate, name, words, hosts=hosts, published=published):
                    return self.step(f"{name}-{hosts}-{published}", program, hosts, rate, [*words, "--ops", "paced"], paced) / alone

                guess = 8 * 2 * (hosts - 1) / hosts * gradients / ((factor - 1) * alone)
                rate, found = self.rate_for(factor, guess, lambda rate, at=factor_at: at(rate, "ring", ring))
                measured[hosts, published] = (hosts / found, rate, hosts / factor_at(rate, "lockstep", []),
                                              hosts / factor_at(rate, "polled", ["--progress-thread", "no"]))
            by_ring, rate, acceleration, polled = measured[hosts, published]
            result.append({"kind": "paced", "hosts": hosts, "seconds": f"{alone:.4f}",
                           "published": f"{row['project']} {row['model']} {row['acceleration']}".strip() if row["project"] else "",
                           "ring": f"{by_ring:.2f}", "rate": f"{rate / 1e6:.0f}", "acceleration": f"{acceleration:.2f}",
                           "efficiency": f"{acceleration / hosts:.3f}", "polled": f"{polled:.2f}"})
        return result

    def simulate(self):
        """Steps in which buckets are exchanged one after the other beside computing, each as long as SimGrid says."""
        compute, buckets = self.buckets()
        sizes = sorted({size for _, size in buckets})
        environment = {"RANKS": " ".join(map(str, SIMULATED)), "BYTES": " ".join(map(str, sizes)), "PLATFORMS": "flat",
                       "CONTENDERS": "auto:64512:4"}
        run([ROOT / "mpi-scripts/bench/simulate.sh", "run"], self.folder / "simulate.txt", environment)
        with (ROOT / "build/smpi/results.csv").open(encoding="utf-8") as file:
            times = {(int(ranks), int(size)): float(seconds) for platform, contender, ranks, size, seconds, _ in csv.reader(file)
                     if (platform, contender) == ("flat", "auto:64512:4")}
        result = []
        for hosts in SIMULATED:
            end = 0.0
            for ready, size in buckets:
                end = max(end, ready) + times[hosts, size]
            step = max(end, compute)
            result.append({"kind": "simulated", "hosts": hosts, "seconds": f"{step:.4f}", "acceleration": f"{hosts * compute / step:.2f}",
                           "efficiency": f"{compute / step:.3f}"})
        return result


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        name = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown processor")
    return f"{os.cpu_count()} cores of {name}".replace("(R)", "").replace(",", "")


def store(model, kind, new):
    """Puts rows in place of those of the same kind and model."""
    kept = [row for row in rows_of(RESULTS) if (row["kind"], row["model"]) != (kind, model)]
    both = kept + [{**dict.fromkeys(COLUMNS, ""), "model": model, "machine": machine(), **row} for row in new]
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        file.write("# mpi-scripts/scaling.sh wrote this: how training scales over hosts. Rates are in Mbit/s each way.\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(both, key=lambda row: (row["kind"], row["model"])))


def cells(row):
    seconds = f"{float(row['seconds']):,.0f} s" if row["kind"] == "measured" else f"{1000 * float(row['seconds']):,.0f} ms"
    efficiency = f"{100 * float(row['efficiency']):.0f} %"
    if row["kind"] == "paced":
        return [row["model"], row["hosts"], row["published"] or "–", row["ring"], f"{row['rate']} Mbit/s", row["acceleration"],
                efficiency, row["polled"], f"{100 * float(row['polled']) / int(row['hosts']):.0f} %"]
    metric = [row["metric"]] if row["kind"] == "measured" else []
    return [row["model"], row["hosts"], seconds, *metric, row["acceleration"], efficiency]


def tables(rows):
    for kind, headers in HEADERS.items():
        of_kind = [row for row in rows if row["kind"] == kind]
        if of_kind:
            print(f"\n| {' | '.join(headers)} |\n|{'---|' * len(headers)}")
            for row in of_kind:
                print(f"| {' | '.join(cells(row))} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("how", choices=["measure", "pace", "simulate", "tables"])
    parser.add_argument("--train", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--configuration", type=pathlib.Path)
    parser.add_argument("--hosts")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:split], argparse.Namespace(options=words[split + 1:]))
    if arguments.how == "tables":
        tables(rows_of(RESULTS))
        return
    scaling = Scaling(arguments)
    new = getattr(scaling, arguments.how)()
    store(scaling.model, new[0]["kind"], new)
    subprocess.run([ROOT / "mpi-scripts/bench/plots.py"], check=True)
    tables([row for row in rows_of(RESULTS) if row["kind"] == new[0]["kind"] and row["model"] == scaling.model])


if __name__ == "__main__":
    main()
