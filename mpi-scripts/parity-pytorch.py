#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does in PyTorch what nn_parity did, from the same weights and batches, and compares.

  parity-pytorch.py train RUN
      RUN: a training run in float64. Losses, weights and running statistics must agree within 1e-9 of the largest
      element of each tensor, or of 1e-4 of the largest of all: some are zero but for rounding.
  parity-pytorch.py gradients WEIGHTS REFERENCE FAST
      WEIGHTS: a training run in float64 that wrote its weights after every step; REFERENCE and FAST: gradients at those
      weights in float64 and float32. Each gradient tensor's relative L2 distance from the reference, median over steps,
      must be at most 3 times that of PyTorch in float32. Where that is above 1e-4, single ReLUs that flip decide it,
      and it is the median over tensors that must be.
  parity-pytorch.py record NN_PARITY FILE [MODEL...]
      FILE: tests/nn/pytorch_models.json. Trains these models, or all, in float64 from lockstep's weights on its batches
      and writes down what comes of it; what FILE has of other models stays.

Exit code 0 if the bounds hold, 1 if one is broken.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch

import torch_models

TRAINING_BOUND = 1e-9
ZERO = 1e-4  # of the largest element of all tensors: what normalisation takes away again is zero but for rounding
GRADIENT_BOUND = 3.0
FLIPS = 1e-4


class Run:
    """The files of one run of nn_parity."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.index = json.loads((self.directory / "index.json").read_text())
        self.inputs = {spec["name"]: self.input(spec) for spec in self.index["inputs"]}
        self.losses = self.raw("losses.bin", "<f8")

    def input(self, spec):
        values = self.raw(spec["name"] + ".bin", "<i4" if spec["integer"] else "<f4")
        return values.reshape(self.index["steps"], self.index["batch"], *spec["extent"])

    def raw(self, file, dtype):
        return np.fromfile(self.directory / file, dtype)

    def snapshots(self, file, tensors="parameters"):
        """A list, one entry for each time the tensors were written, of {name: array}."""
        slots = self.index[tensors]
        sizes = [int(np.prod(slot["shape"])) for slot in slots]
        dtype = "<f8" if self.index["precision"] == "float64" else "<f4"
        flat = self.raw(file, dtype).reshape(-1, sum(sizes)) if sizes else np.empty((1, 0))
        ends = np.cumsum(sizes)
        return [{slot["name"]: row[end - size:end].reshape(slot["shape"])
                 for slot, size, end in zip(slots, sizes, ends)} for row in flat]

    def module(self, dtype):
        extents = {spec["name"]: tuple(spec["extent"]) for spec in self.index["inputs"]}
        module = torch_models.MODELS[self.index["model"]](extents, self.index["classes"]).to(dtype)
        ours = [slot["name"] for slot in self.index["parameters"]]
        theirs = [name for name, _ in module.named_parameters()]
        if ours != theirs:
            sys.exit(f"the models differ: lockstep has {ours}, PyTorch {theirs}")
        return module

    def batch(self, step, dtype):
        torch_models.Dropout.seed, torch_models.Dropout.step = self.index["seed"], step
        tensors = {name: torch.from_numpy(values[step]) for name, values in self.inputs.items()}
        return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor.long()
                for name, tensor in tensors.items()}


def load(module, weights):
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(weights[name])))


def deviations_of(ours, theirs):
    """Of each tensor: the largest difference, in units of its largest element."""
    theirs = {name: theirs[name].detach().numpy() for name in ours}
    largest = {name: np.abs(values).max() for name, values in theirs.items()}
    least = ZERO * max(largest.values())
    return {name: float(np.abs(ours[name] - values).max() / max(largest[name], least))
            for name, values in theirs.items()}


def row(model, what, value, bound):
    verdict = "ok" if value <= bound else "BROKEN"
    print(f"{model:12} {what:68} {value:10.3g}  bound {bound:8.3g}  {verdict}", flush=True)
    return value <= bound


def worst(deviations):
    name = max(deviations, key=deviations.get)
    return name, deviations[name]


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
    module = run.module(torch.float64)
    snapshots = run.snapshots("weights.bin")
    load(module, snapshots[0])
    loss_deviation = 0.0
    deviations = {}
    for step, loss in train(run, module):
        loss_deviation = max(loss_deviation, abs(loss - run.losses[step]) / abs(loss))
        if (step + 1) % index["weights_every"] == 0:
            weights = snapshots[(step + 1) // index["weights_every"]]
            for name, value in deviations_of(weights, dict(module.named_parameters())).items():
                deviations[name] = max(deviations.get(name, 0.0), value)
    held = [row(index["model"], f"loss, {index['steps']} steps", loss_deviation, TRAINING_BOUND)]
    name, value = worst(deviations)
    held.append(row(index["model"], f"weights, worst of {len(deviations)}: {name}", value, TRAINING_BOUND))
    if index["state"]:
        state = run.snapshots("state.bin", "state")[0]
        name, value = worst(deviations_of(state, dict(module.named_buffers())))
        held.append(row(index["model"], f"running statistics, worst of {len(state)}: {name}", value, TRAINING_BOUND))
    return all(held)


def distances(gradients, reference):
    """Relative L2 distance of each tensor."""
    return {name: np.linalg.norm(gradients[name].astype(np.float64) - exact) / np.linalg.norm(exact)
            for name, exact in reference.items()}


def pytorch_gradients(run, step, weights):
    module = run.module(torch.float32)
    load(module, weights)
    module.loss(run.batch(step, torch.float32)).backward()
    return {name: parameter.grad.numpy() for name, parameter in module.named_parameters()}


def compare_gradients(weights_directory, reference_directory, fast_directory):
    run, reference, fast = Run(weights_directory), Run(reference_directory), Run(fast_directory)
    if not all(np.array_equal(values, other.inputs[name]) for name, values in run.inputs.items()
               for other in (reference, fast)):
        sys.exit("the runs were not made with the same batches")
    weights, exact, ours = run.snapshots("weights.bin"), reference.snapshots("gradients.bin"), fast.snapshots("gradients.bin")
    steps = range(run.index["steps"])
    our_distances = [distances(ours[step], exact[step]) for step in steps]
    their_distances = [distances(pytorch_gradients(run, step, weights[step]), exact[step]) for step in steps]
    ours = {name: float(np.median([of_step[name] for of_step in our_distances])) for name in exact[0]}
    theirs = {name: float(np.median([of_step[name] for of_step in their_distances])) for name in exact[0]}
    our_median, their_median = np.median(list(ours.values())), np.median(list(theirs.values()))
    print(f"{'':12} median over tensors of the distance: lockstep {our_median:.2e}, PyTorch {their_median:.2e}")
    if their_median > FLIPS:
        return row(run.index["model"], "float32 gradients ÷ PyTorch's, where ReLUs flip, median over tensors",
                   our_median / their_median, GRADIENT_BOUND)
    ratios = {name: ours[name] / theirs[name] for name in ours}
    name, value = worst(ratios)
    above = sum(ratio > GRADIENT_BOUND for ratio in ratios.values())
    what = f"float32 gradients ÷ PyTorch's, {above} of {len(ratios)} above; {name}"
    return row(run.index["model"], what, value, GRADIENT_BOUND)


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
        subprocess.run([program, *(word for key, value in options.items() for word in (f"--{key}", *str(value).split()))],
                       check=True)
        run = Run(directory)
        module = run.module(torch.float64)
        load(module, run.snapshots("weights.bin")[0])
    record = {key: run.index[key] for key in ("model", "batch", "seed", "learning_rate", "momentum", "classes")}
    record |= {"inputs": {spec["name"]: spec["extent"] for spec in run.index["inputs"]}, "losses": []}
    for step, loss in train(run, module):
        record["losses"].append(rounded(loss))
        if step == 0:
            record["first_gradients"] = [figures(parameter.grad) for parameter in module.parameters()]
    buffers = dict(module.named_buffers())
    record["last_parameters"] = [figures(parameter) for parameter in module.parameters()]
    record["last_state"] = [figures(buffers[slot["name"]]) for slot in run.index["state"]]
    deviations = np.abs(np.array(record["losses"]) / run.losses - 1)
    print(f"{model}: losses {record['losses'][0]:.4f} to {record['losses'][-1]:.4f}, within {deviations.max():.1e}")
    return record


def record_models(program, file, *models):
    every = subprocess.run([program, "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    path = pathlib.Path(file)
    runs = [run for run in json.loads(path.read_text()) if run["model"] in set(every) - set(models or every)] \
        if path.exists() else []
    for model in models or every:
        runs += [record_run(program, model, options) for options in torch_models.RECORDED.get(model, [{"steps": 20}])]
    runs.sort(key=lambda run: every.index(run["model"]))
    lines = [",\n ".join(f'"{key}": {json.dumps(value, separators=(",", ":"))}' for key, value in run.items())
             for run in runs]
    path.write_text("[\n" + ",\n".join("{" + line + "}" for line in lines) + "\n]\n")
    return True


def main(arguments):
    torch.set_num_threads(1)
    if len(arguments) == 2 and arguments[0] == "train":
        return compare_training(arguments[1])
    if len(arguments) == 4 and arguments[0] == "gradients":
        return compare_gradients(*arguments[1:])
    if len(arguments) >= 3 and arguments[0] == "record":
        return record_models(*arguments[1:])
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
