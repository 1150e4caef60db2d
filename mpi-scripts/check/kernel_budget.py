#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums the kernels of one training step of resnet50, batch 256, bf16, as ncu timed them, beside what each part should take.

  kernel_budget.py TABLE.csv [--model resnet50]

TABLE.csv is ncu's, with the metrics gpu__time_duration.sum and dram__bytes.sum (--csv, with --page raw or without it, in any
units). Lines before the table are passed over, as is a metric that ncu could not read (n/a). A filter's size is in no kernel's
name: a convolution is known by its place among the other kernels of the step, and where that does not fit the model, all
convolutions are one row.
"""
import argparse
import collections
import csv
import itertools
import pathlib
import re
import sys

TIME, BYTES = "gpu__time_duration.sum", "dram__bytes.sum"
SECONDS = {"s": 1, "second": 1, "ms": 1e-3, "msecond": 1e-3, "us": 1e-6, "usecond": 1e-6, "ns": 1e-9, "nsecond": 1e-9}
SIZES = {"byte": 1, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "tbyte": 1e12}
CONVOLUTIONS = ["3x3", "1x1", "stem"]
# GB moved, ms at the speed of a copy, and ms expected of this code: on an H100, resnet50, batch 256, bf16.
BUDGET = {
    "3x3": (5, 3.6, 5.9),
    "1x1": (26, 9.0, 12),
    "stem": (1.2, 0.4, 1),
    "statistics": (5.7, 1.9, 2.4),
    "normalize": (12.4, 4.1, 5.1),
    "backward sums": (18.8, 6.2, 7.4),
    "backward dx": (16.1, 5.4, 6.4),
    "pools, bytes": (0.2, 0.1, 0.2),
    "update, pack": (1, 0.3, 0.7),
    "folds": (None, None, 1.6),  # with what lies between the launches, which ncu does not time
}
# The first that the kernel's name has; the names are those of our functions and functors (src/ops/cuda).
OWN = [
    ("folds", r"\bfold_each_channel\b"),
    ("statistics", r"\bsum_pack_parts\b.*Deviations\b"),
    ("backward sums", r"\bsum_pack_parts\b.*\bGradientSums(OfTwo)?\b"),
    ("backward dx", r"\bInputGradient(sOfTwo)?\b"),
    ("normalize", r"\bNormalize(Two)?\b|\bPoolNormalized\b"),
    ("pools, bytes", r"\bWindows\b|\bconvert_to_(plain|nhwc)\b"),
    ("update, pack", r"\b(un)?pack\b|\bUpdate|\b(update|measure|sum)_batch\b|\b(count_not_finite|compute_scalars|add_squares)\b"),
]
IS_OWN = re.compile(r"lockstep|nccl|" + "|".join(pattern for _, pattern in OWN))  # what stands between two convolutions

Kernel = collections.namedtuple("Kernel", "name seconds bytes")


def number(text, unit, units):
    """A number in ncu's writing, with commas between thousands; None where it could not be read."""
    try:
        return float(text.replace(",", "")) * units[unit.lower()]
    except ValueError:
        return None
    except KeyError:
        sys.exit(f"the unit '{unit}' is none of {', '.join(units)}")


def rows_of(lines):
    """The rows from the table's head on: in front is what the program printed."""
    first = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    if first is None:
        raise ValueError("there is no line of ncu's that begins with \"ID\": did ncu end with an error?")
    return list(csv.DictReader(line for line in lines[first:] if line.startswith('"')))


def read(path):
    """The kernels in the order of their launches.
    @throws ValueError  if it is no table of ncu's with these metrics"""
    rows = rows_of(pathlib.Path(path).read_text(errors="replace").splitlines())
    values, names, units = collections.defaultdict(dict), {}, {}
    for row in rows:
        if not row["ID"]:  # --page raw: the second line has the units
            units = row
            continue
        names.setdefault(row["ID"], row["Kernel Name"])
        if "Metric Name" in row:
            values[row["ID"]][row["Metric Name"]] = (row["Metric Value"], row["Metric Unit"])
        else:
            values[row["ID"]] = {metric: (row[metric], units.get(metric, "")) for metric in (TIME, BYTES) if metric in row}
    for metric in (TIME, BYTES):
        if not any(metric in found for found in values.values()):
            raise ValueError(f"the table has no {metric}")
    return [Kernel(name, number(*values[i].get(TIME, ("n/a", "s")), SECONDS),
                   number(*values[i].get(BYTES, ("n/a", "byte")), SIZES)) for i, name in names.items()]


def own_part(name):
    for part, pattern in OWN:
        if re.search(pattern, name):
            return part
    return "other"


def filters_of(model):
    """The sizes of a model's filters in the order of its convolutions, and the classifier; and which are those of shortcuts."""
    if model != "resnet50":
        return [], []
    filters, shortcuts = ["stem"], []
    for blocks in (3, 4, 6, 3):
        for block in range(blocks):
            filters += ["1x1", "3x3", "1x1"]
            if block == 0:
                shortcuts.append(len(filters))
                filters.append("1x1")
    return [*filters, "other"], shortcuts


def both_ways(forward, shortcuts):
    """What a step may run: backward computes a layer's gradients with an own kernel between them, or without, and nothing of its
    own between a shortcut and the last convolution of its block, or something; the first layer has no gradient of its input."""
    for separate, joined in itertools.product((True, False), (True, False)):
        back = []
        for i, size in reversed(list(enumerate(forward))):
            layer = [size, size] if separate else [size]
            back += layer[1:] if joined and i + 1 in shortcuts else layer
        yield [*forward, *back[:-1]] if separate else [*forward, *back]


def foreign_parts(kernels, model):
    """The part of each kernel that is not ours: each run of them belongs to one convolution."""
    runs, inside = [], False
    for i, kernel in enumerate(kernels):
        if IS_OWN.search(kernel.name):
            inside = False
            continue
        if not inside:
            runs.append([])
        inside = True
        runs[-1].append(i)
    forward, shortcuts = filters_of(model)
    for sizes in both_ways(forward, shortcuts):
        if forward and len(runs) == len(sizes):
            return {i: size for run, size in zip(runs, sizes) for i in run}
    return {i: "convolutions" for run in runs for i in run}


class Report:
    def __init__(self, kernels, model):
        foreign = foreign_parts(kernels, model)
        self.parts = collections.defaultdict(list)
        for i, kernel in enumerate(kernels):
            self.parts[foreign.get(i) or own_part(kernel.name)].append(kernel)
        self.budget = BUDGET
        if "convolutions" in self.parts:
            sums = tuple(round(sum(BUDGET[size][k] for size in CONVOLUTIONS), 1) for k in range(3))
            self.budget = {"convolutions": sums} | {part: row for part, row in BUDGET.items() if part not in CONVOLUTIONS}

    def figures(self):
        """For each part the number of kernels, their milliseconds and GB."""
        return {part: {"kernels": len(kernels), "ms": round(1e3 * total(kernels, "seconds"), 3),
                       "gb": round(total(kernels, "bytes") / 1e9, 3)} for part, kernels in self.parts.items()}

    def text(self):
        head = "| part | kernels | ms | expected | at copy speed | GB | GB expected | GB/s |"
        lines = [head, "|---|---|---|---|---|---|---|---|"]
        names = [*self.budget, *(part for part in self.parts if part not in self.budget)]
        for part in names:
            lines.append(row_of(part, self.parts.get(part, []), self.budget.get(part, (None, None, None))))
        budgets = [self.budget[part] for part in self.budget]
        lines.append(row_of("sum", [k for kernels in self.parts.values() for k in kernels],
                            tuple(sum(row[k] or 0 for row in budgets) for k in range(3))))
        lines += ["", "The kernels that take longest, all launches of a name together:", ""]
        names = collections.defaultdict(list)
        for part, kernels in self.parts.items():
            for kernel in kernels:
                names[f"{part}: {kernel.name}"].append(kernel)
        longest = sorted(names.items(), key=lambda item: -total(item[1], "seconds"))[:25]
        lines += [f"{1e3 * total(kernels, 'seconds'):8.3f} ms {len(kernels):5} {name[:200]}" for name, kernels in longest]
        return "\n".join(lines) + "\n"


def total(kernels, what):
    return sum(getattr(kernel, what) or 0 for kernel in kernels)


def row_of(part, kernels, budget):
    seconds, size = total(kernels, "seconds"), total(kernels, "bytes")
    gigabytes, ideal, expected = (f"{value:.1f}" if value is not None else "–" for value in budget)
    speed = f"{size / seconds / 1e9:,.0f}" if seconds > 0 else "–"
    return f"| {part} | {len(kernels)} | {1e3 * seconds:.2f} | {expected} | {ideal} | {size / 1e9:.2f} | {gigabytes} | {speed} |"


def report(path, model="resnet50"):
    return Report(read(path), model)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--model", default="resnet50")
    options = parser.parse_args()
    try:
        print(report(options.table, options.model).text(), end="")
    except (OSError, ValueError) as error:
        sys.exit(f"{options.table}: {error}")


if __name__ == "__main__":
    main()
