# SPDX-License-Identifier: Apache-2.0
"""What nn_parity writes down, for parity-pytorch.py and parity-float32.py."""
import json
import pathlib
import subprocess
import sys

import numpy as np
import torch

import torch_models

ZERO = 1e-4  # of the largest element of all tensors: what normalization takes away again is zero but for rounding


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

    def module(self, dtype, weights):
        """The same model, with these parameters, whose names are checked to be ours."""
        extents = {spec["name"]: tuple(spec["extent"]) for spec in self.index["inputs"]}
        module = torch_models.MODELS[self.index["model"]](extents, self.index["classes"]).to(dtype)
        ours = sorted(slot["name"] for slot in self.index["parameters"])
        theirs = sorted(name for name, _ in module.named_parameters())
        if ours != theirs:
            sys.exit(f"the models differ: lockstep has {ours}, PyTorch {theirs}")
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(torch.from_numpy(np.ascontiguousarray(weights[name])))
        return module

    def batch(self, step, dtype):
        torch_models.Dropout.seed, torch_models.Dropout.step = self.index["seed"], step
        tensors = {name: torch.from_numpy(values[step]) for name, values in self.inputs.items()}
        return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor.long()
                for name, tensor in tensors.items()}


def models_of(program):
    return subprocess.run([program, "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def drawn_run(program, **options):
    """Starts nn_parity with these options; "out" is one of them."""
    words = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", *str(value).split())]
    subprocess.run([program, *words], check=True)
    return Run(options["out"])


def described(run):
    """What a test has to know to draw the same run."""
    record = {key: run.index[key] for key in ("model", "batch", "seed", "classes")}
    return record | {"inputs": {spec["name"]: spec["extent"] for spec in run.index["inputs"]}}


def as_lines(runs):
    """A list of runs as JSON, each key on a line of its own."""
    texts = [",\n ".join(f'"{key}": {json.dumps(value, separators=(",", ":"))}' for key, value in run.items())
             for run in runs]
    return "[\n" + ",\n".join("{" + text + "}" for text in texts) + "\n]\n"


def row(model, what, value, bound):
    verdict = "ok" if value <= bound else "BROKEN"
    print(f"{model:12} {what:68} {value:10.3g}  bound {bound:8.3g}  {verdict}", flush=True)
    return value <= bound


def worst(deviations):
    name = max(deviations, key=deviations.get)
    return name, deviations[name]
