#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes 100 steps with PyTorch's AdamW and SGD and with timm's LAMB, in float64, and writes down the weights.

    optimizers-pytorch.py OUT.json      needs torch and timm

tests/nn/pytorch_optimizers.json is what it has written; the test PyTorchOptimizers of nn.pytorch_test takes the same
steps and compares.
"""
import json
import math
import sys

import torch
from timm.optim.lamb import Lamb

torch.set_default_dtype(torch.float64)
SHAPES = ((3, 5), (4,))
STEPS = 100
CASES = (
    {"rule": "sgd", "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    {"rule": "adamw", "momentum": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.01},
    {"rule": "adamw", "momentum": 0.8, "beta2": 0.95, "epsilon": 1e-6, "weight_decay": 0.1},
    {"rule": "lamb", "momentum": 0.9, "beta2": 0.999, "epsilon": 1e-6, "weight_decay": 0.01},
)


def wave(count, a, b):
    return torch.tensor([math.sin(a * i + b) for i in range(count)])


def optimizer_of(case, weights):
    if case["rule"] == "sgd":
        return torch.optim.SGD(weights, lr=1, momentum=case["momentum"], weight_decay=case["weight_decay"],
                               nesterov=case["nesterov"])
    options = {"lr": 1, "betas": (case["momentum"], case["beta2"]), "eps": case["epsilon"],
               "weight_decay": case["weight_decay"]}
    return torch.optim.AdamW(weights, **options) if case["rule"] == "adamw" else Lamb(weights, max_grad_norm=None,
                                                                                      **options)


def run(case):
    weights = [torch.nn.Parameter(wave(math.prod(shape), 0.7, k).reshape(shape)) for k, shape in enumerate(SHAPES)]
    optimizer = optimizer_of(case, weights)
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = 0.01 * (1 + 0.5 * math.sin(step))
        for k, weight in enumerate(weights):
            waves = wave(weight.numel(), 0.37, 1.3 * step + k).reshape(weight.shape)
            weight.grad = waves + 0.05 * weight.detach()
        optimizer.step()
    return dict(case, weights=[weight.detach().reshape(-1).tolist() for weight in weights])


with open(sys.argv[1], "w") as file:
    json.dump([run(case) for case in CASES], file, indent=1)
    file.write("\n")
