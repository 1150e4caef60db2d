#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes down the learning rates of PyTorch's schedulers over a run of 100 steps.

    learning-rates-pytorch.py OUT.json

tests/nn/pytorch_learning_rates.json is what it has written; the test PyTorchSchedules.GiveTheSameRates compares. The
comment of LearningRateSchedule says which schedulers a schedule stands for, and why.
"""
import json
import sys
import warnings

import torch
from torch.optim import lr_scheduler

PEAK = 0.3
STEPS = 100


def sequential(make):
    """The schedule begins when the warm-up is over, and takes the steps that remain."""
    def schedulers(optimizer, warmup):
        decay = make(optimizer, STEPS - warmup)
        return lr_scheduler.SequentialLR(optimizer, [linear(optimizer, warmup), decay], [warmup]) if warmup else decay
    return schedulers


def linear(optimizer, warmup):
    return lr_scheduler.LinearLR(optimizer, start_factor=1 / (warmup + 1), total_iters=warmup)


def cosine(final):
    return sequential(lambda optimizer, steps: lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=final * PEAK))


def polynomial(power):
    return sequential(lambda optimizer, steps: lr_scheduler.PolynomialLR(optimizer, total_iters=steps, power=power))


def constant():
    return sequential(lambda optimizer, steps: lr_scheduler.ConstantLR(optimizer, factor=1))


def step(milestones, gamma):
    """Milestones count from the start of the run, with a warm-up as without."""
    def schedulers(optimizer, warmup):
        drops = lr_scheduler.MultiStepLR(optimizer, [round(STEPS * each) for each in milestones], gamma)
        return lr_scheduler.ChainedScheduler([linear(optimizer, warmup), drops]) if warmup else drops
    return schedulers


def one_cycle(**options):
    return lambda optimizer, warmup: lr_scheduler.OneCycleLR(
        optimizer, max_lr=PEAK, total_steps=STEPS, cycle_momentum=False, **options)


# Fields of LearningRateSchedule, and the schedulers. Without a warm-up and with one of 13 steps; one cycle has its own.
CASES = [
    ({"schedule": "constant"}, constant()),
    ({"schedule": "step"}, step([0.5, 0.75], 0.1)),
    ({"schedule": "step", "milestones": [0.25, 0.33, 0.9], "gamma": 0.3}, step([0.25, 0.33, 0.9], 0.3)),
    ({"schedule": "cosine"}, cosine(0)),
    ({"schedule": "cosine", "final_fraction": 0.05}, cosine(0.05)),
    ({"schedule": "polynomial"}, polynomial(1)),
    ({"schedule": "polynomial", "power": 0.9}, polynomial(0.9)),
    ({"schedule": "polynomial", "power": 2.5}, polynomial(2.5)),
    ({"schedule": "one-cycle", "final_fraction": 1 / 25e4}, one_cycle()),
    ({"schedule": "one-cycle", "final_fraction": 0.01}, one_cycle(final_div_factor=1 / 25 / 0.01)),
]


def rates(make, warmup):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=PEAK)
    scheduler = make(optimizer, warmup)
    result = []
    for _ in range(STEPS):
        result.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return result


def main():
    warnings.simplefilter("ignore")  # SequentialLR passes an argument that its own schedulers call deprecated
    lines = []
    for fields, make in CASES:
        for warmup in (0, 13) if fields["schedule"] != "one-cycle" else (0,):
            case = {**fields, "peak": PEAK, "warmup_steps": warmup}
            lines.append(json.dumps({**case, "rates": rates(make, warmup)}))
    with open(sys.argv[1], "w") as file:
        file.write("[\n" + ",\n".join(lines) + "\n]\n")


main()
