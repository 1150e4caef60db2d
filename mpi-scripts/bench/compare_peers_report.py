#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums up the rounds of compare-peers.sh: Markdown tables, and the same as JSON.

  compare_peers_report.py DIR...     reads DIR/contenders and DIR/CONTENDER-ROUND.json (comm-bench --json and the
                                     programs of mpi-scripts/bench/peers), writes DIR/result.json; of selection-NAME, DIR/sweep.json
"""
import collections
import json
import os
import pathlib
import statistics
import sys

KIB, MIB = 1 << 10, 1 << 20
# Is no peer: it moves the bytes and adds nothing up.
BARE_TCP = "tcp-exchange"


def read_rounds(directory, contender):
    """{bytes: {algorithm: [median of each round, µs]}}"""
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    files = [file for file in directory.glob(f"{contender}-*.json") if file.stem[len(contender) + 1:].isdigit()]
    for file in sorted(files, key=lambda file: int(file.stem[len(contender) + 1:])):
        for result in json.loads(file.read_text())["results"]:
            if not result["correct"]:
                sys.exit(f"error: {file} has wrong results")
            times[result["bytes"]][result["algorithm"]].append(result["median_us"])
    return times


def fastest(directory, contender):
    """{bytes: [µs of each round]}: the contender's fastest algorithm at each size, by the median of its rounds."""
    return {size: min(algorithms.values(), key=statistics.median)
            for size, algorithms in read_rounds(directory, contender).items()}


def compare(ours, peers):
    """At each size the medians, and their ratio with the least and the largest of the rounds' own ratios."""
    rows = []
    for size in sorted(ours):
        known = {peer: statistics.median(times[size]) for peer, times in peers.items() if size in times}
        if known:
            best = min(known, key=known.get)
            mine = statistics.median(ours[size])
            ratios = [theirs / own for theirs, own in zip(peers[best][size], ours[size])]
            rows.append({"bytes": size, "lockstep_us": mine, "peers_us": known, "fastest": best, "ratio": known[best] / mine,
                         "least_ratio": min(ratios), "largest_ratio": max(ratios)})
    return rows


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} hardware threads"


def size_name(size):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size:,} B"


def microseconds(value):
    return "–" if value is None else f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def print_table(subject, ours, peers, rows, bare_tcp):
    print(f"\n**{subject}**: {ours}\n")
    columns = list(peers) + (["bare TCP"] if bare_tcp else [])
    ratio = "limit ÷ lockstep" if columns == ["limit"] else "fastest peer ÷ lockstep"
    print("| size | lockstep | " + " | ".join(columns) + f" | {ratio} | |")
    print("|---|---|" + "---|" * len(columns) + "---|---|")
    for row in rows:
        times = [row["peers_us"].get(peer) for peer in peers] + ([bare_tcp.get(row["bytes"])] if bare_tcp else [])
        print(f"| {size_name(row['bytes'])} | {microseconds(row['lockstep_us'])} | {' | '.join(map(microseconds, times))} "
              f"| {row['ratio']:.2f} ({row['least_ratio']:.2f}–{row['largest_ratio']:.2f}) | {row['fastest']} |")


def own_algorithms(results):
    return [r for r in results if r["algorithm"] not in ("auto", "mpi", "mpi-native")]


def report_sweep(directory):
    """auto beside lockstep's single algorithms, of one interleaved sweep"""
    print(f"\n**{directory.name}**\n")
    if not (directory / "sweep.json").exists():
        print("has no results")
        return
    results = json.loads((directory / "sweep.json").read_text())["results"]
    print("| size | auto | best single algorithm | | auto ÷ best |\n|---|---|---|---|---|")
    for size in sorted({r["bytes"] for r in results}):
        here = [r for r in results if r["bytes"] == size]
        auto = next(r["median_us"] for r in here if r["algorithm"] == "auto")
        best = min(own_algorithms(here), key=lambda r: r["median_us"])
        ratio = auto / best["median_us"]
        print(f"| {size_name(size)} | {microseconds(auto)} | {microseconds(best['median_us'])} | {best['algorithm']} "
              f"| {ratio:.2f} |")


def report(directory):
    contenders = (directory / "contenders").read_text().split()
    ours = [name for name in contenders if name.startswith("lockstep")]
    bare_tcp = {size: statistics.median(rounds) for size, rounds in fastest(directory, BARE_TCP).items()}
    peers = {name: fastest(directory, name) for name in contenders if name not in ours and name != BARE_TCP}
    tables = {}
    for name in ours:
        subject = f"{directory.name}, user's memory" if name.endswith("-user") else directory.name
        rows = compare(fastest(directory, name), peers)
        print_table(subject, name, list(peers), rows, bare_tcp)
        tables[name] = rows
    result = {"processor": processor(), "setting": directory.name, "tables": tables, "bare_tcp_us": bare_tcp}
    (directory / "result.json").write_text(json.dumps(result, indent=2) + "\n")


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    print(f"{processor()}\nall-reduce, float32 sum in place; µs, median of the rounds' medians; (least–largest of the rounds' ratios)")
    for directory in arguments:
        directory = pathlib.Path(directory)
        if directory.name.startswith("selection"):
            report_sweep(directory)
        else:
            report(directory)


if __name__ == "__main__":
    main(sys.argv[1:])
