#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes every row of tests/ops/rows.cpp in PyTorch, in float64, and writes down scalar products of its results.

    operators-pytorch.py ROWS.json OUT.json      ROWS.json is what the program ops_list_rows prints

tests/ops/pytorch.json is what it has written; the test Rows.AgreeWithPyTorch compares. An operator is one entry of
OPERATORS: it is given inputs, parameters and state, and gives the output, or the sum of the losses.
"""
import json
import sys

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def wave(k, count):
    x = np.arange(count, dtype=np.float64)
    return np.sin(1.7 * x + 0.9 * k + 0.3) * np.cos(0.31 * x * x + k)


def rounded(values):
    return values.astype(np.float32).astype(np.float64)


def weights(count):
    return torch.from_numpy(np.cos(np.arange(count, dtype=np.float64) + 0.5))


def dot(tensor):
    flat = tensor.detach().reshape(-1)
    return float((flat * weights(flat.numel())).sum())


def make_input(k, described, integers):
    count = int(np.prod(described["shape"]))
    if described["domain"] == "integer":
        values = (7 * np.arange(count) + 3) % integers
        return torch.from_numpy(values.astype(np.int64)).reshape(described["shape"])
    values = rounded(wave(k, count))
    if described["domain"] == "unit":
        values = rounded(0.5 + 0.49 * values)
    return torch.from_numpy(values).reshape(described["shape"]).requires_grad_()


def make_owned(k, described, low, high):
    count = int(np.prod(described["shape"]))
    values = rounded(low + (high - low) * (0.5 + 0.5 * wave(k, count)))
    return torch.from_numpy(values).reshape(described["shape"])


def conv(stride=1, padding=0, after=lambda y: y):
    return lambda x, p, s: after(F.conv2d(x[0], p[0], p[1] if len(p) > 1 else None, stride, padding))


def batch_norm(after=lambda y: y):
    return lambda x, p, s: after(F.batch_norm(x[0], s[0], s[1], p[0], p[1], training=True))


def cross_entropy(**options):
    return lambda x, p, s: F.cross_entropy(x[0], x[1][:, 0], reduction="sum", **options)


OPERATORS = {
    "conv-1x1": conv(),
    "conv-1x1-stride": conv(stride=2),
    "conv-3x3": conv(padding=1),
    "conv-3x3-relu": conv(padding=1, after=F.relu),
    "conv-3x3-stride": conv(stride=2, padding=1),
    "conv-3x3-odd": conv(padding=1),
    "conv-5x5": conv(padding=2),
    "conv-7x7-stem": conv(stride=2, padding=3),
    "conv-small": conv(padding=3),
    "batch-norm": batch_norm(),
    "batch-norm-relu": batch_norm(after=F.relu),
    "relu": lambda x, p, s: F.relu(x[0]),
    "max-pool": lambda x, p, s: F.max_pool2d(x[0], 2),
    "max-pool-overlapping": lambda x, p, s: F.max_pool2d(x[0], 3, 2),
    "average-pool": lambda x, p, s: F.avg_pool2d(x[0], 2),
    "average-pool-global": lambda x, p, s: F.avg_pool2d(x[0], 8),
    "linear": lambda x, p, s: F.linear(x[0].flatten(1), p[0], p[1]),
    "linear-of-images": lambda x, p, s: F.relu(F.linear(x[0].flatten(1), p[0], p[1])),
    "add": lambda x, p, s: x[0] + x[1],
    "add-relu": lambda x, p, s: F.relu(x[0] + x[1]),
    "cross-entropy": cross_entropy(),
    "cross-entropy-pixels": cross_entropy(ignore_index=2),
}


def digest(row):
    inputs = [make_input(k, each, row["integers"]) for k, each in enumerate(row["inputs"])]
    first = len(inputs)
    parameters = [make_owned(first + k, each, -0.5, 0.7).requires_grad_() for k, each in enumerate(row["parameters"])]
    first += len(parameters)
    state = [make_owned(first + k, each, 0.5, 1) for k, each in enumerate(row["state"])]
    output = OPERATORS[row["name"]](inputs, parameters, state)
    flat = output.reshape(-1)
    (output if row["loss"] else (flat * weights(flat.numel())).sum()).backward()
    results = [dot(each) for each in state]
    for each in inputs + parameters:
        if each.dtype == torch.float64:
            results.append(dot(each.grad if each.grad is not None else torch.zeros_like(each)))
    return results + ([float(output.detach())] if row["loss"] else [])


def main():
    with open(sys.argv[1]) as file:
        rows = json.load(file)
    missing = [row["name"] for row in rows if row["name"] not in OPERATORS]
    if missing:
        sys.exit(f"error: OPERATORS has no entry for {', '.join(missing)}")
    lines = [f"{json.dumps(row['name'])}: {json.dumps(digest(row))}" for row in rows]
    with open(sys.argv[2], "w") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


main()
