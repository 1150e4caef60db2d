#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/plots from docs/measurements.

  plots.py                            draws all plots
  plots.py --check                    fails, naming the file, where a committed plot is not what would be drawn
  plots.py --reduce TRACE.json HOW    prints the shortest step of a file of `train --trace`, as overlap.csv has it; HOW
                                      says by which command it was made
The pictures are readable on light and on dark pages. They have a background, because a page may be dark while the system is light.
"""
import collections
import csv
import json
import pathlib
import sys

sys.dont_write_bytecode = True
from log_panel import LogPanel, size_text  # noqa: E402  pylint: disable=wrong-import-position

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEASUREMENTS, PLOTS = ROOT / "docs/measurements", ROOT / "docs/plots"
STYLE = """<style>
.page { fill: #ffffff } text { fill: #1f2328; font-family: sans-serif; font-size: 12px }
.grid { stroke: #d1d9e0 } .frame { fill: none; stroke: #818b98 } .small { font-size: 11px } .title { font-size: 15px }
@media (prefers-color-scheme: dark) { .page { fill: #0d1117 } text { fill: #f0f6fc } .grid { stroke: #3d444d } }
</style>"""
# Middling tones, which stand out from white and from black.
OURS, OTHER = "#e5484d", "#8b949e"
LIBRARIES = {"lockstep": ("lockstep", OURS, "none"), "lockstep-ordinary": ("lockstep, ordinary memory", OURS, "5 4"),
             "openmpi-4.1.4": ("Open MPI 4.1.4", "#3b82f6", "none"), "openmpi-5.0.11": ("Open MPI 5.0.11", "#3b82f6", "5 4"),
             "mpich-4.0.2": ("MPICH 4.0.2", "#2da44e", "none"), "mpich-5.0.2": ("MPICH 5.0.2", "#2da44e", "5 4"),
             "impi-2021.18.1": ("Intel MPI 2021.18.1", "#c98a00", "none")}
KINDS = {"forward": "#3b82f6", "backward": "#a371f7", "wait for gradients": "#c98a00", "update": "#2da44e"}


def rows(name):
    lines = (MEASUREMENTS / name).read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def page(width, height, title, parts):
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
            STYLE, f'<rect class="page" width="{width}" height="{height}"/>', f'<text class="title" x="16" y="24">{title}</text>']
    return "\n".join(head + parts + ["</svg>"]) + "\n"


def bar(x, y, width, height, color, hint=""):
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.8):.1f}" height="{height:.1f}" fill="{color}">'
            f'<title>{hint}</title></rect>')


def text(x, y, words, anchor="start", kind=""):
    return f'<text{kind and f" class={chr(34)}{kind}{chr(34)}"} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def all_reduce():
    table = rows("all_reduce_two_ranks.csv")
    curves = {name: {int(row["bytes"]): float(row[name]) * 1e-6 for row in table} for name in LIBRARIES}
    panel = LogPanel(70, 60, 560, 330, curves.values())
    parts = panel.frame("", "size of the buffer", lambda size: size_text(size) if size in TICKS else "", digits=(1,))
    for place, (name, (label, color, dashes)) in enumerate(LIBRARIES.items()):
        parts += panel.curve(curves[name], color, dashes, 3 if color == OURS else 1.8)
        y = 76 + 22 * place
        parts += [f'<line x1="650" x2="682" y1="{y}" y2="{y}" stroke="{color}" stroke-width="2.5" '
                  f'stroke-dasharray="{dashes}"/>', text(690, y + 4, label)]
    return page(880, 446, "All-reduce of float32 sums, two ranks on a node: time, less is better", parts)


TICKS = {4, 64, 1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20}


def training():
    parts, y = [], 60
    for row in rows("training.csv"):
        ours, theirs = float(row["lockstep"]), float(row["pytorch"])
        parts.append(text(150, y + 24, f'{row["model"]}, {row["precision"]}', "end"))
        for offset, name, speed, color in ((0, "lockstep", ours, OURS), (18, "PyTorch", theirs, OTHER)):
            length = 150 * speed / theirs
            parts += [bar(160, y + offset, length, 15, color, name), text(166 + length, y + offset + 12, f"{speed:,.0f}")]
        parts.append(text(840, y + 24, f"{row['ratio']} ×", "end"))
        y += 48
    for place, (name, color) in enumerate((("lockstep", OURS), ("PyTorch 2.15, the fastest of eight ways", OTHER))):
        parts += [bar(160 + 110 * place, 36, 12, 12, color), text(178 + 110 * place, 46, name)]
    return page(850, y + 6, "Training on two cores: images per second, bars relative to PyTorch", parts)


def sub_rows(spans):
    """For each span (begin, end), ascending, the first row in which nothing overlaps it."""
    ends, places = [], []
    for begin, end in spans:
        place = next((i for i, busy in enumerate(ends) if busy <= begin), len(ends))
        ends[place:place + 1] = [end]
        places.append(place)
    return places


def overlap():
    lanes = collections.defaultdict(list)
    for row in rows("overlap.csv"):
        lanes[int(row["rank"]), row["lane"]].append((float(row["begin_ms"]), float(row["end_ms"]), row))
    last = max(end for spans in lanes.values() for _, end, _ in spans)
    left, width, parts = 160, 670, []
    scale, y = width / last, 66
    for (rank, lane), spans in sorted(lanes.items(), key=lambda item: (item[0][0], item[0][1] != "compute")):
        places = sub_rows([(begin, end) for begin, end, _ in spans]) if lane == "communication" else [0] * len(spans)
        height = 24 / (max(places) + 1)
        parts.append(text(left - 10, y + 16, f"rank {rank}, {lane}", "end"))
        for place, (begin, end, row) in zip(places, spans):
            color = KINDS.get(row["what"], OURS)
            parts.append(bar(left + begin * scale, y + place * height, (end - begin) * scale, height - 1, color,
                             f'{row["what"]}, {end - begin:.2f} ms'))
        y += 32 if lane == "compute" else 46
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500) if last / s <= 10)
    for mark in range(0, int(last) + 1, step):
        parts.insert(0, f'<line class="grid" x1="{left + mark * scale:.1f}" x2="{left + mark * scale:.1f}" y1="60" '
                        f'y2="{y - 14}"/>')
        parts.append(text(left + mark * scale, y + 2, f"{mark} ms", "middle", "small"))
    x = left
    for name, color in {**KINDS, "all-reduce of a bucket": OURS}.items():
        parts += [bar(x, 38, 12, 12, color), text(x + 17, 48, name)]
        x += 34 + 6.5 * len(name)
    return page(850, y + 18, "One training step of resnet20 on two ranks", parts)


def scaling():
    """Accelerations on slow links, as parts of the number of hosts."""
    paced = [row for row in rows("scaling.csv") if row["kind"] == "paced"]
    bars = (("ring", "ring after backward", OTHER), ("acceleration", "lockstep", OURS), ("polled", "with --progress-thread no", "#c98a00"))
    left, width, parts, y = 300, 480, [], 62
    for row in paced:
        model, _, published = row["published"].rpartition(" ")
        title = f'{row["hosts"]} hosts, {row["model"]}' + (f" for {model.split(' ', 1)[1]}" if model else "")
        parts += [text(left - 10, y + 16, title, "end"),
                  text(left - 10, y + 31, f"{published + ' published, ' if published else ''}{row['rate']} Mbit/s", "end", "small")]
        for place, (column, name, color) in enumerate(bars):
            length = width * float(row[column]) / int(row["hosts"])
            parts += [bar(left, y + 13 * place, length, 11, color, f"{name}: {row[column]}"),
                      text(left + length + 5, y + 13 * place + 10, f"{float(row[column]):.2f}", kind="small")]
        y += 54
    parts.insert(0, f'<line class="grid" x1="{left + width}" x2="{left + width}" y1="56" y2="{y - 10}"/>')
    parts.append(text(left + width, y + 4, "line: acceleration = hosts", "end", "small"))
    for place, (_, name, color) in enumerate(bars):
        parts += [bar(left + 150 * place, 36, 12, 12, color), text(left + 17 + 150 * place, 46, name)]
    return page(850, y + 16, "Acceleration on several hosts with slow links", parts)


def cifar10():
    """Accuracy after each epoch."""
    table = rows("cifar10.csv")
    names = [name for name in table[0] if name != "epoch"]
    left, top, width, height, low = 70, 60, 560, 330, 40
    x = lambda epoch: left + width * epoch / int(table[-1]["epoch"])  # noqa: E731
    y = lambda accuracy: top + height * (100 - 100 * accuracy) / (100 - low)  # noqa: E731
    parts = [f'<rect class="frame" x="{left}" y="{top}" width="{width}" height="{height}"/>']
    for percent in range(low, 101, 10):
        parts += [f'<line class="grid" x1="{left}" x2="{left + width}" y1="{y(percent / 100):.1f}" y2="{y(percent / 100):.1f}"/>',
                  text(left - 8, y(percent / 100) + 4, f"{percent} %", "end", "small")]
    for epoch in range(0, int(table[-1]["epoch"]) + 1, 10):
        parts.append(text(x(epoch), top + height + 18, str(epoch), "middle", "small"))
    parts.append(text(left + width / 2, top + height + 38, "epoch", "middle"))
    for place, name in enumerate(names):
        library, seed = name.split("-")
        color, dashes = OURS if library == "lockstep" else OTHER, "none" if place % 2 == 0 else "5 4"
        line = " ".join(f"{x(int(row['epoch'])):.1f},{min(y(float(row[name])), top + height):.1f}" for row in table)
        parts += [f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.8" stroke-dasharray="{dashes}"/>',
                  f'<line x1="650" x2="682" y1="{76 + 22 * place}" y2="{76 + 22 * place}" stroke="{color}" stroke-width="2.5" '
                  f'stroke-dasharray="{dashes}"/>',
                  text(690, 80 + 22 * place, f"{'PyTorch' if library == 'pytorch' else library}, seed {seed}: "
                       f"{float(table[-1][name]):.2%}")]
    return page(880, 446, "CIFAR-10 as JPEGs, resnet20: accuracy on the test images", parts)


def kind_of(name):
    word = name.split(" ")[0]
    return name if name in KINDS else "backward" if word == "recompute" else word if word in KINDS else None


def step_spans(events, rank, step):
    """Compute and communication of a rank's step, as (lane, what, begin, end) in µs from the step's first operator."""
    tracks = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name" and e["pid"] == rank}
    spans = {lane: [e for e in events if e["ph"] == "X" and e["pid"] == rank and e["tid"] == tracks[lane]]
             for lane in ("compute", "communication")}
    updates = [i for i, e in enumerate(spans["compute"]) if e["name"] == "update"]
    chosen = spans["compute"][updates[step - 1] + 1:updates[step] + 1]
    work = [(kind_of(e["name"]), e["ts"], e["ts"] + e["dur"]) for e in chosen if kind_of(e["name"])]
    first, last = work[0][1], work[-1][2]
    merged = []
    for what, begin, end in work:  # neighbors of one kind become one
        if merged and merged[-1][0] == what:
            merged[-1][2] = end
        else:
            merged.append([what, begin, end])
    buckets = [(e["name"].split(" (")[0], e["ts"], e["ts"] + e["dur"]) for e in spans["communication"]
               if e["name"].startswith("bucket") and first <= e["ts"] <= last]
    return [("compute", *span) for span in merged] + [("communication", *span) for span in buckets]


def reduce_trace(path, how):
    """The shortest step, without the first five, in which caches and buffers are cold."""
    events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
    steps = sum(e["name"] == "update" and e["pid"] == 0 for e in events)
    candidates = [[step_spans(events, rank, step) for rank in (0, 1)] for step in range(5, steps)]
    length = lambda spans: max(s[3] for rank in spans for s in rank) - min(s[2] for rank in spans for s in rank)  # noqa: E731
    shortest = min(candidates, key=length)
    origin = min(span[2] for spans in shortest for span in spans)
    print(f"# The shortest of {steps} steps of resnet20, from a timeline of `train --trace`.\n# {how}")
    print("rank,lane,what,begin_ms,end_ms")
    for rank, spans in enumerate(shortest):
        for lane, what, begin, end in spans:
            print(f"{rank},{lane},{what},{(begin - origin) / 1000:.3f},{(end - origin) / 1000:.3f}")


def main(arguments):
    if len(arguments) == 3 and arguments[0] == "--reduce":
        return reduce_trace(*arguments[1:])
    if arguments == ["--help"]:
        print(__doc__)
        return
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    for draw in (all_reduce, training, overlap, scaling, cifar10):
        if draw is cifar10 and not (MEASUREMENTS / "cifar10.csv").exists():
            continue  # measured in hours, by parity/cifar10.sh
        path, picture = PLOTS / f"{draw.__name__}.svg", draw()
        if not arguments:
            path.write_text(picture)
        elif not path.exists() or path.read_text() != picture:
            sys.exit(f"{path.relative_to(ROOT)} is not what mpi-scripts/bench/plots.py draws from docs/measurements: run it")


if __name__ == "__main__":
    main(sys.argv[1:])
