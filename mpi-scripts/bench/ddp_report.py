#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums up what compare-ddp.sh has measured.

  ddp_report.py best DIR MODEL KEEP             the fastest ways of PyTorch in the first pass, a line each
  ddp_report.py table DIR BIND PRECISION OPTIONS   a Markdown table; the same as JSON in DIR/result.json

Of a model it reads DIR/MODEL-tried-WAY.json, and of each round DIR/MODEL-lockstep-WAY-ROUND.jsonl (train --metrics),
DIR/MODEL-pytorch-WAY-ROUND.json and, in float32, DIR/MODEL-alone-one-ROUND.json (nn_convolutions_alone). A WAY is
RANKSxTHREADS_LAYOUT_MODE of PyTorch, RANKSxTHREADS_KIND of lockstep. DIR/MODEL-load-ROUND.txt has the seconds of all processors
before and after the round: busy, taken by the hypervisor, and used by the compared programs; then the round's own seconds.
"""
import json
import os
import pathlib
import statistics
import sys

MODELS = ["lenet", "resnet20", "resnet18", "mobilenet-v2", "unet", "pp-liteseg", "crnn-mv3"]
# First windows, in which caches fill and memory is allocated, do not count, on either side.
SKIPPED_WINDOWS = 2
THREADS = 2


def rate(windows, file):
    if len(windows) <= SKIPPED_WINDOWS:
        sys.exit(f"error: {file} has {len(windows)} windows and the first {SKIPPED_WINDOWS} do not count: raise STEPS")
    return statistics.median(windows[SKIPPED_WINDOWS:])


def read_lockstep(file):
    events = [json.loads(line) for line in file.read_text().splitlines()]
    start = next(event for event in events if event["event"] == "start")
    windows = [event["images_per_second"] for event in events if event["event"] == "step"]
    return rate(windows, file), {"lockstep_commit": start["version"], "batch": start["batch"]}


def read_pytorch(file):
    result = json.loads(file.read_text())
    return rate(result["windows"], file), {"torch": result["torch"], "batch": result["batch"]}


def read_alone(file):
    result = json.loads(file.read_text())
    return result["fastest"], {"alone_batch": result["batch"], "alone_direct": result["direct"]}


def rounds_of(directory, model, kind, read, facts):
    """The rates of each way's rounds. What a file says beside them goes to the facts."""
    rates = {}
    for file in sorted(directory.glob(f"{model}-{kind}-*-*.json*"), key=lambda file: int(file.stem.rsplit("-", 1)[1])):
        way = file.stem.removeprefix(f"{model}-{kind}-").rsplit("-", 1)[0]
        found, said = read(file)
        rates.setdefault(way, []).append(found)
        facts |= said
    return rates


def tried(directory, model):
    """The rates of PyTorch's ways in the first pass, the fastest first."""
    prefix = f"{model}-tried-"
    rates = {file.stem.removeprefix(prefix): read_pytorch(file)[0] for file in directory.glob(prefix + "*.json")}
    return dict(sorted(rates.items(), key=lambda way: -way[1]))


def best_of(rates):
    """The way with the largest median, or None."""
    return max(rates, key=lambda way: statistics.median(rates[way]), default=None)


def median_of_best(rates):
    return statistics.median(rates[best_of(rates)]) if rates else None


def load(directory, model):
    """The largest shares of all processors that other programs and the hypervisor took in a round."""
    others = taken = 0
    for file in directory.glob(f"{model}-load-*.txt"):
        before, after, (wall,) = ([float(word) for word in line.split()] for line in file.read_text().splitlines())
        busy, stolen, own = (b - a for a, b in zip(before, after, strict=True))
        whole = wall * os.cpu_count()
        others, taken = max(others, (busy - own) / whole), max(taken, stolen / whole)
    return {"others": others, "hypervisor": taken}


def compare(directory, model):
    facts = {}
    ours = rounds_of(directory, model, "lockstep", read_lockstep, facts)
    theirs = rounds_of(directory, model, "pytorch", read_pytorch, facts)
    alone = rounds_of(directory, model, "alone", read_alone, facts)
    return {"model": model, "lockstep": ours, "pytorch": theirs, "pytorch_tried": tried(directory, model),
            "pytorch_best": best_of(theirs), "convolutions_alone": median_of_best(alone), "load": load(directory, model)} | facts


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    value = {line.split(":", 1)[0].strip(): line.split(":", 1)[1].strip() for line in lines if ":" in line}
    features = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in value.get("flags", "").split()]
    return (f"{value.get('model name', 'unknown processor')} (family {value.get('cpu family')}, model "
            f"{value.get('model')}; {', '.join(features)}), {os.cpu_count()} hardware threads")


def named(way):
    """2x1_channels-last_compiled in words."""
    place, *rest = way.split("_")
    ranks, threads = place.split("x")
    words = f"{ranks} ranks × {threads} thread" if ranks != "1" else f"1 rank × {threads} threads"
    rest = [{"usual": "", "exact": "--exact"}.get(word, word).replace("-last", " last") for word in rest]
    return ", ".join([words, *filter(None, rest)])


def spread(rates):
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f} – {max(rates):,.0f})"


def ratios(row, rates):
    """The median and the range of the rounds' ratios to PyTorch's best way."""
    of_rounds = [own / best for own, best in zip(rates, row["pytorch"][row["pytorch_best"]], strict=True)]
    return f"{statistics.median(of_rounds):.2f} ({min(of_rounds):.2f} – {max(of_rounds):.2f})"


def lockstep_lines(row):
    kinds = {way.split("_")[1] for way in row["lockstep"]}
    best = {kind: best_of({way: rates for way, rates in row["lockstep"].items() if way.endswith(kind)}) for kind in kinds}
    for way, rates in sorted(row["lockstep"].items(), key=lambda item: (item[0].endswith("exact"), item[0][0] == "1")):
        median = statistics.median(rates)
        alone = f"{median / THREADS / row['convolutions_alone']:.0%}" if row["convolutions_alone"] else ""
        mark = "**" if way in best.values() else ""
        yield f"lockstep, {named(way)}", spread(rates), f"{mark}{ratios(row, rates)}{mark}", alone


def pytorch_lines(row):
    for way, rates in row["pytorch"].items():
        yield f"PyTorch, {named(way)}", spread(rates), ratios(row, rates), ""
    best = statistics.median(row["pytorch"][row["pytorch_best"]])
    for way, found in row["pytorch_tried"].items():
        if way not in row["pytorch"]:
            yield f"PyTorch, {named(way)}; tried once", f"{found:,.0f}", f"{found / best:.2f}", ""


def print_table(rows, bind, precision, options):
    rounds = len(next(iter(rows[0]["lockstep"].values())))
    print(f"{processor()}; PyTorch {rows[0]['torch']}; lockstep {rows[0]['lockstep_commit']}")
    print(f"{precision}; bound to: {bind}; rounds: {rounds}; options of lockstep: {options or 'none'}")
    print("images/s and ratios are medians of the rounds (least – most); lockstep's with data loading, PyTorch's without")
    loads = ", ".join(f"{row['model']} {row['load']['others']:.1%} and {row['load']['hypervisor']:.1%}" for row in rows)
    print(f"at most taken from both in a round, by other programs and by the hypervisor: {loads}\n")
    print("| model, batch | | images/s | ÷ PyTorch's best | share of convolutions alone |\n|---|---|---|---|---|")
    for row in rows:
        lines = [*lockstep_lines(row), *pytorch_lines(row)]
        if row["convolutions_alone"]:
            lines.append((f"convolutions alone, fastest kernels, 1 thread, batch {row['alone_batch']}",
                          f"{row['convolutions_alone']:,.0f}", "", ""))
            lines.append(("the same, direct kernels only", f"{row['alone_direct']:,.0f}", "", ""))
        for number, line in enumerate(lines):
            print(f"| {row['model'] + ', ' + str(row['batch']) if number == 0 else ''} | {' | '.join(line)} |")


def table(directory, bind, precision, options):
    models = [model for model in MODELS if list(directory.glob(f"{model}-lockstep-*.jsonl"))]
    if not models:
        sys.exit(f"error: there are no rounds in {directory}")
    rows = [compare(directory, model) for model in models]
    print_table(rows, bind, precision, options)
    result = {"processor": processor(), "bind": bind, "precision": precision, "options": options, "models": rows}
    (directory / "result.json").write_text(json.dumps(result, indent=2) + "\n")


def main(arguments):
    if len(arguments) == 4 and arguments[0] == "best":
        print("\n".join(list(tried(pathlib.Path(arguments[1]), arguments[2]))[:int(arguments[3])]))
    elif len(arguments) == 5 and arguments[0] == "table":
        table(pathlib.Path(arguments[1]), *arguments[2:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
