#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares logits that lockstep and PyTorch compute in float64 from the same files of weights.

  logits-pytorch.py TRAIN TRAINER_LOGITS [MODEL...]

From lockstep to PyTorch: `train` takes some steps on small images and saves; the module of torch_models.py, which has
torchvision's names and lockstep's first layers for small images, loads the file strictly. Back: torchvision's own model, with
random batch norms, is saved; trainer_logits loads it strictly, and a second file of the small module, too, which
`train --weights --eval-only` accepts. Exit code 0 if all agree within 1e-9, 1 otherwise.
"""
import pathlib
import subprocess
import sys
import tempfile

import torch
import torchvision
from safetensors.torch import load_file, save_file

import torch_models

BOUND = 1e-9
CLASSES = 10
TORCHVISION = {"resnet18": "resnet18", "resnet50": "resnet50", "mobilenet-v2": "mobilenet_v2", "vgg11-bn": "vgg11_bn"}


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {result.returncode}:\n{result.stdout}{result.stderr}")


def randomize_normalization(module):
    """Wider than at the start of a training run, so that images and classes matter in the result."""
    for layer in module.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(layer.weight, 1, 3)
    for name, buffer in module.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_(0, 0.1)
        elif name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)


def difference(module, weights, images, program, name, folder):
    """The largest difference of both results for one file of weights, in units of the largest number."""
    images_file, result_file = folder / "images.safetensors", folder / "result.safetensors"
    save_file({"images": images}, images_file)
    result_file.unlink(missing_ok=True)
    run(program, name, CLASSES, weights, images_file, result_file)
    ours = load_file(result_file)["logits"]
    with torch.no_grad():
        theirs = module.double().eval()(images)
    for what, spread in (("classes", theirs.std(1).min()), ("images", (theirs[0] - theirs[1]).abs().max())):
        if float(spread) < 1e-6:
            sys.exit(f"{name}: all {what} are alike, so that nothing is compared")
    return float((ours - theirs).abs().max() / theirs.abs().max())


def compare(train, program, name, folder):
    small, large = torch.randn(2, 3, 32, 32, dtype=torch.float64), torch.randn(2, 3, 64, 64, dtype=torch.float64)
    run(train, "--model", name, "--dataset", "synthetic-cifar", "--batch", 8, "--steps", 30, "--eval-interval", "never",
        "--lr", 0.001, "--ema", 0.5, "--save-dir", folder / name)
    weights = folder / name / "checkpoints/last/model.safetensors"
    module = torch_models.MODELS[name]({"images": (3, 32, 32)}, CLASSES)
    module.load_state_dict(load_file(weights))
    results = [difference(module, weights, small, program, name, folder)]

    module = torch_models.MODELS[name]({"images": (3, 32, 32)}, CLASSES)
    randomize_normalization(module)
    weights = folder / f"{name}-small.safetensors"
    save_file(module.state_dict(), weights)
    run(train, "--model", name, "--dataset", "synthetic-cifar", "--eval-only", "--weights", weights)
    results.append(difference(module, weights, small, program, name, folder))

    module = getattr(torchvision.models, TORCHVISION[name])(num_classes=CLASSES)
    randomize_normalization(module)
    weights = folder / f"{name}.safetensors"
    save_file(module.state_dict(), weights)
    results.append(difference(module, weights, large, program, name, folder))
    print(f"{name:14}" + "".join(f"{result:12.1e}" for result in results), flush=True)
    return max(results) <= BOUND


def main():
    train, program, *models = sys.argv[1:]
    torch.manual_seed(1)
    print(f"{'model':14}{'to PyTorch':>12}{'from it':>12}{'torchvision':>12}   relative differences of logits")
    with tempfile.TemporaryDirectory() as folder:
        good = [compare(train, program, name, pathlib.Path(folder)) for name in models or TORCHVISION]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
