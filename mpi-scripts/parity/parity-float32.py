#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far each tensor's gradients in float32 are from those in float64, beside PyTorch's.

A tensor's distance is the L2 norm of the difference in units of its norm, or of 1e-4 of all tensors', and the median
over several batches. With --exact lockstep's may be 3 times PyTorch's, without 30 times: every tensor's, of every model.
It is measured where no ReLU and no max-pool is within rounding of its kink (see kinks.py): there gradients would tell
which side rounding fell to, and not how large it was.

  parity-float32.py settle WEIGHTS
      WEIGHTS: a training run in float64 that wrote its weights after every step. Keeps each step's weights from kinks
      of its batch: rewrites them.
  parity-float32.py compare WEIGHTS REFERENCE EXACT FAST
      REFERENCE, EXACT, FAST: gradients at those weights in float64, in float32 with --exact, and without.
  parity-float32.py record NN_PARITY FILE
      FILE: tests/nn/pytorch_float32.json. Settles initial weights of the models in RECORDED and writes down the biases
      and PyTorch's distances, for a test that holds lockstep's to them.

Exit code 0 if the bounds hold, 1 if one is broken.
"""
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch

import kinks
import parity_runs
from parity_runs import Run, row, worst

BOUNDS = {"with --exact": 3.0, "without": 30.0}
# Of each model that takes little time: where oneDNN takes Winograd's convolutions, which it does from batch 16 on.
RECORDED = {"crnn": {}, "detector": {}, "lenet": {"image": "1 28 28"}, "resnet20": {"image": "3 16 16"}, "unet": {}}
RECORDED_BATCHES = 3
DIGITS = 4  # of a recorded bias, after the point


def distances(gradients, exact):
    norms = {name: np.linalg.norm(values) for name, values in exact.items()}
    least = parity_runs.ZERO * np.linalg.norm(list(norms.values()))
    return {name: np.linalg.norm(gradients[name].astype(np.float64) - values) / max(norms[name], least)
            for name, values in exact.items()}


def medians(of_batches):
    return {name: float(np.median([of_batch[name] for of_batch in of_batches])) for name in of_batches[0]}


def pytorch_gradients(run, step, weights, dtype=torch.float32):
    module = run.module(dtype, weights)
    module.loss(run.batch(step, dtype)).backward()
    return {name: parameter.grad.numpy() for name, parameter in module.named_parameters()}


def settled(run, step, weights, digits=None):
    """Weights beside the given ones, and how far from kinks they keep the step's batch."""
    module = run.module(torch.float64, weights)
    kinks.settle(module, run.batch(step, torch.float64), digits)
    weights = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
    rounded = run.module(torch.float32, weights)
    margin = kinks.least_margin(module, run.batch(step, torch.float64), rounded, run.batch(step, torch.float32))
    return weights, margin


def settle(directory):
    run = Run(directory)
    weights, margins = zip(*[settled(run, step, of_step) for step, of_step in
                             zip(range(run.index["steps"]), run.snapshots("weights.bin"))])
    # In order, and one more, as a training run writes them.
    with open(run.directory / "weights.bin", "wb") as file:
        for of_step in (*weights, weights[-1]):
            for slot in run.index["parameters"]:
                of_step[slot["name"]].astype("<f8").tofile(file)
    (run.directory / "margins.json").write_text(json.dumps(margins))
    return True


def kept_steps(run):
    """Those whose batch is away from kinks: a max-pool's cannot always be had."""
    margins = json.loads((run.directory / "margins.json").read_text())
    kept = [step for step, margin in enumerate(margins) if margin >= kinks.MARGIN]
    if len(kept) < len(margins) / 2:
        sys.exit(f"{run.index['model']}: only {len(kept)} of {len(margins)} batches are away from kinks; "
                 "smaller images or batches have fewer")
    return kept


def compare(weights_directory, *directories):
    run, (reference, *fast) = Run(weights_directory), map(Run, directories)
    if not all(np.array_equal(values, other.inputs[name]) for name, values in run.inputs.items()
               for other in (reference, *fast)):
        sys.exit("the runs were not made with the same batches")
    weights, exact = run.snapshots("weights.bin"), reference.snapshots("gradients.bin")
    kept = kept_steps(run)
    theirs = medians([distances(pytorch_gradients(run, step, weights[step]), exact[step]) for step in kept])
    print(f"{run.index['model']:12} {len(kept)} of {run.index['steps']} batches of {run.index['batch']} away from kinks; "
          f"median over tensors: PyTorch's distance {np.median(list(theirs.values())):.2e}")
    held = []
    for other, (how, bound) in zip(fast, BOUNDS.items()):
        gradients = other.snapshots("gradients.bin")
        ours = medians([distances(gradients[step], exact[step]) for step in kept])
        quotients = {name: ours[name] / theirs[name] for name in ours}
        name, value = worst(quotients)
        what = (f"{how}, {other.index['winograd']} Winograd: ÷ PyTorch's, median {np.median(list(quotients.values())):.2f}, "
                f"worst of {len(quotients)}: {name}")
        held.append(row(run.index["model"], what, value, bound))
    return all(held)


def record_model(program, model, options):
    with tempfile.TemporaryDirectory() as directory:
        run = parity_runs.drawn_run(program, model=model, batch=16, steps=4 * RECORDED_BATCHES, lr=1e-30,
                                    weights_every=1000000, out=directory, **options)
        initial = run.snapshots("weights.bin")[0]
    batches, of_batches, margins = [], [], []
    for step in range(run.index["steps"]):
        weights, margin = settled(run, step, initial, DIGITS)
        if margin < kinks.MARGIN:
            continue
        biases = {name: [round(float(value), DIGITS) for value in values] for name, values in weights.items()
                  if not np.array_equal(values, initial[name].astype(np.float32))}
        batches.append({"number": step, "biases": biases})
        exact = pytorch_gradients(run, step, weights, torch.float64)
        of_batches.append(distances(pytorch_gradients(run, step, weights), exact))
        margins.append(margin)
        if len(batches) == RECORDED_BATCHES:
            break
    if len(batches) < RECORDED_BATCHES:
        sys.exit(f"{model}: only {len(batches)} of {run.index['steps']} batches are away from kinks")
    found = medians(of_batches)
    print(f"{model}: median over tensors of the distance {np.median(list(found.values())):.2e}, "
          f"kinks at least {min(margins):.0f} times the largest error away")
    return parity_runs.described(run) | {"batches": batches,
                                         "distances": [float(f"{value:.3e}") for value in found.values()]}


def record(program, file):
    pathlib.Path(file).write_text(parity_runs.as_lines(
        [record_model(program, model, options) for model, options in RECORDED.items()]))
    return True


def main(arguments):
    torch.set_num_threads(1)
    commands = {"settle": (settle, 1), "compare": (compare, 4), "record": (record, 2)}
    function, count = commands.get(arguments[0] if arguments else "", (None, None))
    if len(arguments) - 1 != count:
        sys.exit(__doc__)
    return function(*arguments[1:])


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
