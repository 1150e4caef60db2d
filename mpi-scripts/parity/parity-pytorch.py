#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains in PyTorch, in float64, as nn_parity or trainer_recipe did, from the same weights on the same batches, and compares.

  parity-pytorch.py train RUN
      RUN: a training run in float64. Losses, weights and running statistics must agree within 1e-9 of the largest
      element of each tensor, or of 1e-4 of the largest of all: some are zero but for rounding.
  parity-pytorch.py recipe RUN
      RUN: twenty steps of trainer_recipe, with the recipe of YOLOv5. Weights, running statistics and the averages of both
      must agree in the same way.
  parity-pytorch.py record NN_PARITY FILE [MODEL...]
      FILE: tests/nn/pytorch_models.json. Trains these models, or all, in float64 from lockstep's weights on its batches
      and writes down what comes of it; what FILE has of other models stays.

Exit code 0 if the bounds hold, 1 if one is broken.
"""
import copy
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch

import parity_runs
import torch_models
from parity_runs import Run, row, worst

BOUND = 1e-9


def deviations_of(ours, theirs):
    """Of each tensor: the largest difference, in units of its largest element."""
    theirs = {name: theirs[name].detach().numpy() for name in ours}
    largest = {name: np.abs(values).max() for name, values in theirs.items()}
    least = parity_runs.ZERO * max(largest.values())
    return {name: float(np.abs(ours[name] - values).max() / max(largest[name], least))
            for name, values in theirs.items()}


def train(run, module):
    """Takes the run's steps; gives each step's number and loss."""
    index = run.index
    sgd = torch.optim.SGD(module.parameters(), lr=index["learning_rate"], momentum=index["momentum"],
                          nesterov=index["nesterov"], weight_decay=index["weight_decay"])
    for step in range(index["steps"]):
        sgd.zero_grad()
        loss = module.loss(run.batch(step, torch.float64))
        loss.backward()
        sgd.step()
        yield step, loss.item()


def compare_training(directory):
    run = Run(directory)
    index = run.index
    snapshots = run.snapshots("weights.bin")
    module = run.module(torch.float64, snapshots[0])
    loss_deviation = 0.0
    deviations = {}
    for step, loss in train(run, module):
        loss_deviation = max(loss_deviation, abs(loss - run.losses[step]) / abs(loss))
        if (step + 1) % index["weights_every"] == 0:
            weights = snapshots[(step + 1) // index["weights_every"]]
            for name, value in deviations_of(weights, dict(module.named_parameters())).items():
                deviations[name] = max(deviations.get(name, 0.0), value)
    held = [row(index["model"], f"loss, {index['steps']} steps", loss_deviation, BOUND)]
    name, value = worst(deviations)
    held.append(row(index["model"], f"weights, worst of {len(deviations)}: {name}", value, BOUND))
    if index["state"]:
        state = run.snapshots("state.bin", "state")[0]
        name, value = worst(deviations_of(state, dict(module.named_buffers())))
        held.append(row(index["model"], f"running statistics, worst of {len(state)}: {name}", value, BOUND))
    return all(held)


class Recipe:
    """YOLOv5's way to update a module: warm-up of rates and momentum, updates over several steps, averages."""

    def __init__(self, module, index):
        self.module, self.index, self.steps_of_epoch = module, index, index["steps"] // index["epochs"]
        norms = tuple(layer for name, layer in torch.nn.__dict__.items() if "Norm" in name)
        layers = list(module.modules())
        biases = [layer.bias for layer in layers if isinstance(getattr(layer, "bias", None), torch.nn.Parameter)]
        scales = [layer.weight for layer in layers if isinstance(layer, norms)]
        taken = {id(parameter) for parameter in biases + scales}
        weights = [parameter for parameter in module.parameters() if id(parameter) not in taken]
        most = max(round(index["nominal_batch"] / index["batch"]), 1)
        decay = index["weight_decay"] * index["batch"] * most / index["nominal_batch"]
        self.sgd = torch.optim.SGD([{"params": biases}, {"params": weights, "weight_decay": decay}, {"params": scales}],
                                   lr=index["learning_rate"], momentum=index["momentum"], nesterov=True)
        self.averages = copy.deepcopy(module).requires_grad_(False)
        self.updates, self.last_update = 0, -1

    def numbers(self, step):
        """The rates of biases and of other parameters, the momentum, and the steps of an update."""
        index = self.index
        fraction = (1 - step // self.steps_of_epoch / index["epochs"]) * (1 - index["final_fraction"]) + index["final_fraction"]
        rate = index["learning_rate"] * fraction
        ramp = lambda first, last: np.interp(step, [0, index["warmup_steps"]], [first, last])
        return (ramp(index["warmup_bias_rate"], rate), ramp(0, rate), ramp(index["warmup_momentum"], index["momentum"]),
                max(1, ramp(1, index["nominal_batch"] / index["batch"]).round()))

    def take(self, step, batch):
        if step % self.steps_of_epoch == 0:
            self.sgd.zero_grad()
        (self.module.loss(batch) * self.index["batch"]).backward()
        bias_rate, rate, momentum, steps = self.numbers(step)
        if step - self.last_update < steps:
            return
        for number, group in enumerate(self.sgd.param_groups):
            group.update(lr=rate if number else bias_rate, momentum=momentum)
        self.sgd.step()
        self.sgd.zero_grad()
        self.last_update, self.updates = step, self.updates + 1
        decay = self.index["ema"] * (1 - np.exp(-self.updates / self.index["ema_ramp"]))
        values = self.module.state_dict()
        for name, average in self.averages.state_dict().items():
            if average.is_floating_point():
                average.mul_(decay).add_((1 - decay) * values[name].detach())


def compare_recipe(directory):
    run = Run(directory)
    start, weights, averages = run.snapshots("weights.bin")
    statistics, average_statistics = run.snapshots("state.bin", "state")
    recipe = Recipe(run.module(torch.float64, start), run.index)
    for step in range(run.index["steps"]):
        recipe.take(step, run.batch(step, torch.float64))
    held = []
    for what, ours, theirs in (("weights", weights, recipe.module.named_parameters()),
                               ("averages of weights", averages, recipe.averages.named_parameters()),
                               ("running statistics", statistics, recipe.module.named_buffers()),
                               ("averages of running statistics", average_statistics, recipe.averages.named_buffers())):
        name, value = worst(deviations_of(ours, dict(theirs)))
        held.append(row(run.index["model"], f"recipe, {recipe.updates} updates, {what}, worst of {len(ours)}: {name}", value, BOUND))
    return all(held)


def figures(tensor):
    """Norm, and sum with weights between -1 and 1: what tests/nn/pytorch_test.cpp takes of each tensor."""
    values = tensor.detach().numpy().ravel()
    weights = (np.arange(values.size, dtype=np.int64) * 7919 % 101) / 50 - 1
    return [rounded(np.linalg.norm(values)), rounded(np.dot(values, weights))]


def rounded(value):
    return float(f"{value:.12e}")


def record_run(program, model, options):
    with tempfile.TemporaryDirectory() as directory:
        options = {"model": model, "batch": 2, "lr": 0.002, "weights-every": 1000000, "out": directory} | options
        run = parity_runs.drawn_run(program, **options)
        module = run.module(torch.float64, run.snapshots("weights.bin")[0])
    record = parity_runs.described(run) | {key: run.index[key] for key in ("learning_rate", "momentum")}
    record["losses"] = []
    parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
    names = {what: [slot["name"] for slot in run.index[what]] for what in ("parameters", "state")}
    for step, loss in train(run, module):
        record["losses"].append(rounded(loss))
        if step == 0:
            record["first_gradients"] = [figures(parameters[name].grad) for name in names["parameters"]]
    record["last_parameters"] = [figures(parameters[name]) for name in names["parameters"]]
    record["last_state"] = [figures(buffers[name]) for name in names["state"]]
    deviations = np.abs(np.array(record["losses"]) / run.losses - 1)
    print(f"{model}: losses {record['losses'][0]:.4f} to {record['losses'][-1]:.4f}, within {deviations.max():.1e}")
    return record


def record_models(program, file, *models):
    every = parity_runs.models_of(program)
    path = pathlib.Path(file)
    runs = [run for run in json.loads(path.read_text()) if run["model"] in set(every) - set(models or every)] \
        if path.exists() else []
    for model in models or every:
        runs += [record_run(program, model, options) for options in torch_models.RECORDED.get(model, [{"steps": 20}])]
    runs.sort(key=lambda run: every.index(run["model"]))
    path.write_text(parity_runs.as_lines(runs))
    return True


def main(arguments):
    torch.set_num_threads(1)
    if len(arguments) == 2 and arguments[0] == "train":
        return compare_training(arguments[1])
    if len(arguments) == 2 and arguments[0] == "recipe":
        return compare_recipe(arguments[1])
    if len(arguments) >= 3 and arguments[0] == "record":
        return record_models(*arguments[1:])
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
