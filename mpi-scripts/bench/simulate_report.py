#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables and curves of what simulate.sh has measured.

  simulate_report.py RESULTS.csv DIR     RESULTS: platform,contender,ranks,bytes,seconds,choice; what has been
                                         chosen, algorithm:radix, is known of auto only and else empty
writes DIR/results.csv, sorted, and DIR/PLATFORM.svg; prints Markdown.
"""
import collections
import csv
import math
import pathlib
import sys

from log_panel import LogPanel, size_text, time_text

# What runs where nothing is asked for, and the same choice of algorithm and radix with the buffer in one block.
AUTO, WHOLE = "auto:64512:4", "auto:1073741824:1"
SELECTORS = ["ompi", "mpich", "mvapich2", "impi"]
SELECTOR_COLORS = dict(zip(SELECTORS, ["#999999", "#b8860b", "#7a5195", "#4d7f17"]))
COLORS = ["#d62728", "#1f77b4", "#ff7f0e", "#17a2a2", "#e377c2", "#2ca02c", "#111111", "#8c564b"]
TITLES = {"flat": "one rank a node", "nodes": "eight ranks a node"}
LEGEND_COLUMNS = 4
PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP, GAP = 300, 300, 70, 60, 75


def read(path):
    """{platform: {bytes: {contender: {ranks: seconds}}}}, and {(platform, contender, bytes, ranks): what auto chose}"""
    tree = lambda: collections.defaultdict(tree)  # noqa: E731
    table, choices = tree(), {}
    for platform, contender, ranks, size, seconds, choice in csv.reader(path.open()):
        if platform != "platform":
            table[platform][int(size)][contender][int(ranks)] = float(seconds)
            choices[platform, contender, int(size), int(ranks)] = choice
    return table, choices


def write(path, table, choices):
    with path.open("w") as file:
        file.write("platform,contender,ranks,bytes,seconds,choice\n")
        for platform in sorted(table):
            for size in sorted(table[platform]):
                for contender in sorted(table[platform][size]):
                    for ranks, seconds in sorted(table[platform][size][contender].items()):
                        choice = choices[platform, contender, size, ranks]
                        file.write(f"{platform},{contender},{ranks},{size},{seconds:.9f},{choice}\n")


def algorithm(choice):
    name, radix = choice.split(":")
    return name if radix in ("2", "-") else f"{name}, radix {radix}"


def least(times, ranks, counts):
    """The least seconds of the contenders that count."""
    found = [by_ranks[ranks] for contender, by_ranks in times.items() if ranks in by_ranks and counts(contender)]
    return min(found, default=None)


def ratio_text(theirs, ours):
    return f"{theirs / ours:.2f}" if ours else "–"


def mean_text(ratios):
    """Of what has been simulated at every size; else there is none."""
    return "–" if None in ratios else f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}"


def print_tables(table, choices):
    """What auto chooses by itself beside the best of the others' choices, and lockstep's oracle choice."""
    for platform in sorted(table):
        print(f"### {TITLES[platform].capitalize()}\n")
        print("| ranks | bytes | auto | its choice | auto, one block | fastest selector | ÷ auto | ÷ auto, one block | oracle choice |")
        print("|---|---|---|---|---|---|---|---|---|")
        ratios = collections.defaultdict(lambda: collections.defaultdict(list))
        for ranks in sorted({r for sizes in table[platform].values() for c in sizes.values() for r in c}):
            for size, times in sorted(table[platform].items()):
                theirs = least(times, ranks, SELECTORS.__contains__)
                ours = {"auto": least(times, ranks, AUTO.__eq__), "whole": least(times, ranks, WHOLE.__eq__),
                        "best": least(times, ranks, lambda contender: contender not in SELECTORS)}
                if not theirs or not ours["whole"]:
                    continue
                for name, seconds in ours.items():
                    ratios[ranks][name].append(theirs / seconds if seconds else None)
                chosen = algorithm(choices[platform, AUTO, size, ranks]) if ranks in times[AUTO] else "–"
                print(f"| {ranks:,} | {size_text(size)} | {time_text(ours['auto'])} | {chosen} | {time_text(ours['whole'])} | "
                      f"{time_text(theirs)} | {ratio_text(theirs, ours['auto'])} | {ratio_text(theirs, ours['whole'])} "
                      f"| {time_text(ours['best'])} |")
        print("\nGeometric means of the fastest selector's time ÷ lockstep's, over the three sizes:\n")
        print("| ranks | auto | auto, one block | oracle choice |\n|---|---|---|---|")
        for ranks, by_name in ratios.items():
            print(f"| {ranks:,} | " + " | ".join(mean_text(by_name[name]) for name in ("auto", "whole", "best")) + " |")
        print()


def curves(times):
    """{name: {ranks: seconds}} of the selectors and of each algorithm of lockstep at its best radix."""
    result = {}
    for contender, by_ranks in times.items():
        curve = result.setdefault(contender.split(":")[0], {})
        for ranks, seconds in by_ranks.items():
            curve[ranks] = min(seconds, curve.get(ranks, seconds))
    return result


def styles(names):
    """{name: (color, dashes)}; the selectors' curves are dashed."""
    ours = sorted(name for name in names if name not in SELECTORS)
    result = {name: (COLORS[index % len(COLORS)], "none") for index, name in enumerate(ours)}
    result.update({s: (SELECTOR_COLORS[s], "6 4") for s in SELECTORS if s in names})
    return result


def legend(entries, y):
    parts = []
    for index, (name, (color, dashes)) in enumerate(entries.items()):
        x, line = LEFT + index % LEGEND_COLUMNS * 275, y + index // LEGEND_COLUMNS * 22
        parts.append(f'<line x1="{x}" x2="{x + 30}" y1="{line}" y2="{line}" stroke="{color}" stroke-width="2" '
                     f'stroke-dasharray="{dashes}"/>')
        text = f"SMPI's {name}" if name in SELECTORS else name
        parts.append(f'<text x="{x + 36}" y="{line + 4}">{text}</text>')
    return parts


def draw(path, platform, sizes):
    panels = {size: curves(times) for size, times in sizes.items()}
    style = styles({name for panel in panels.values() for name in panel})
    width = LEFT + len(sizes) * (PANEL_WIDTH + GAP)
    height = TOP + PANEL_HEIGHT + 70 + 22 * math.ceil(len(style) / LEGEND_COLUMNS)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             '<style>.grid{stroke:#dddddd} .frame{fill:none;stroke:#666666}</style>',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             f'<text x="{LEFT}" y="22" font-size="15">Simulated all-reduce, fat tree of 100 Gbit/s and 2 µs a link, '
             f'{TITLES[platform]}: time until the last rank is done, each algorithm at its best radix</text>']
    for index, (size, times) in enumerate(sorted(panels.items())):
        panel = LogPanel(LEFT + index * (PANEL_WIDTH + GAP), TOP, PANEL_WIDTH, PANEL_HEIGHT, times.values())
        parts += panel.frame(size_text(size), "ranks", "{:,}".format)
        for name, by_ranks in sorted(times.items()):
            parts += panel.curve(by_ranks, *style[name])
    parts += legend(style, TOP + PANEL_HEIGHT + 62)
    path.write_text("\n".join(parts + ["</svg>"]) + "\n")


def main(arguments):
    if len(arguments) != 2:
        sys.exit(__doc__)
    (table, choices), directory = read(pathlib.Path(arguments[0])), pathlib.Path(arguments[1])
    directory.mkdir(parents=True, exist_ok=True)
    write(directory / "results.csv", table, choices)
    for platform, sizes in table.items():
        draw(directory / f"{platform}.svg", platform, sizes)
    print_tables(table, choices)


if __name__ == "__main__":
    main(sys.argv[1:])
