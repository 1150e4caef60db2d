#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares logits that lockstep and PyTorch compute in float64 from the same files of weights.

  logits-pytorch.py TRAIN TRAINER_LOGITS [MODEL...]

From lockstep to PyTorch: `train` takes some steps on small images and saves, and lockstep_models.py loads the checkpoint. Back: a
module of lockstep_models.py with random batch norms is saved, and both trainer_logits and `train --weights --eval-only` load it.
Then the same with torchvision's and timm's own models, whose files go through convert_weights.py. Exit code 0 if all agree within
1e-9, 1 otherwise.
"""
import pathlib
import subprocess
import sys
import tempfile

import timm
import torch
import torchvision
from safetensors.torch import load_file, save_file

import lockstep_models

BOUND = 1e-9
CLASSES = 10
SMALL, LARGE = (3, 32, 32), (3, 64, 64)
CONVERTER = pathlib.Path(__file__).resolve().parents[1] / "convert_weights.py"
NO_CLASSIFIERS = ("crnn", "detector", "pp-liteseg", "unet", "yolov5")
MODELS = [name for name in lockstep_models.MODELS if not name.startswith(NO_CLASSIFIERS)]
TORCHVISION = {"resnet18": "resnet18", "resnet34": "resnet34", "resnet50": "resnet50", "mobilenet-v2": "mobilenet_v2",
               "vgg11-bn": "vgg11_bn"}
TIMM = ("resnet18", "resnet34", "resnet50")


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


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


class Comparison:
    """Of one model."""

    def __init__(self, train, program, name, folder):
        self.train, self.program, self.name, self.folder = train, program, name, pathlib.Path(folder)

    def difference(self, module, weights, images, stem="auto"):
        """The largest difference of both results for one file of weights, in units of the largest number."""
        images_file, result_file = self.folder / "images.safetensors", self.folder / "result.safetensors"
        save_file({"images": images}, images_file)
        result_file.unlink(missing_ok=True)
        run(self.program, self.name, stem, CLASSES, weights, images_file, result_file)
        ours = load_file(result_file)["logits"]
        with torch.no_grad():
            theirs = module.double().eval()(images)
        for what, spread in (("classes", theirs.std(1).min()), ("images", (theirs[0] - theirs[1]).abs().max())):
            if float(spread) < 1e-6:
                sys.exit(f"{self.name}: all {what} are alike, so that nothing is compared")
        return float((ours - theirs).abs().max() / theirs.abs().max())

    def evaluated(self, weights, *options):
        """Lets `train` evaluate a file of weights, which all must fit."""
        run(self.train, "--model", self.name, "--dataset", "synthetic-cifar", "--eval-only", "--weights", weights, *options)

    def trained(self):
        run(self.train, "--model", self.name, "--dataset", "synthetic-cifar", "--batch", 8, "--steps", 10, "--eval-interval",
            "never", "--lr", 0.001, "--ema", 0.5, "--save-dir", self.folder / "run")
        checkpoint = self.folder / "run/checkpoints/last"
        module, about = lockstep_models.load(checkpoint)
        images = lockstep_models.normalized(torch.rand(2, *SMALL, dtype=torch.float64), about)
        return self.difference(module, checkpoint / "model.safetensors", images)

    def loaded(self):
        module = lockstep_models.MODELS[self.name]({"images": SMALL}, CLASSES)
        randomize_normalization(module)
        weights = self.folder / "small.safetensors"
        save_file(module.state_dict(), weights)
        self.evaluated(weights)
        return self.difference(module, weights, torch.randn(2, *SMALL, dtype=torch.float64))

    def foreign(self, module):
        """Of another library's model, by a file that torch.save writes."""
        randomize_normalization(module)
        pth, weights = self.folder / "weights.pth", self.folder / "weights.safetensors"
        torch.save(module.state_dict(), pth)
        run(sys.executable, CONVERTER, pth, weights)
        self.evaluated(weights, "--stem", "imagenet")
        return self.difference(module, weights, torch.randn(2, *LARGE, dtype=torch.float64), "imagenet")

    def results(self):
        yield self.trained()
        yield self.loaded()
        name = TORCHVISION.get(self.name)
        yield self.foreign(getattr(torchvision.models, name)(num_classes=CLASSES)) if name else None
        yield self.foreign(timm.create_model(self.name, num_classes=CLASSES)) if self.name in TIMM else None


def main():
    train, program, *models = sys.argv[1:]
    torch.manual_seed(1)
    print(f"{'model':14}{'to PyTorch':>12}{'from it':>12}{'torchvision':>12}{'timm':>12}   relative differences of logits")
    good = True
    for name in models or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            results = list(Comparison(train, program, name, folder).results())
        print(f"{name:14}" + "".join(f"{'-':>12}" if result is None else f"{result:12.1e}" for result in results), flush=True)
        good = good and all(result is None or result <= BOUND for result in results)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
