#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""paddleseg-original.py BUILD: see paddleseg.sh. BUILD is the folder with bin/train, bin/lockstep-export and tests/trainer_logits."""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
import paddle
from paddleseg.models import PPLiteSeg, STDC1
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

CONVERTER = pathlib.Path(__file__).resolve().parents[1] / "convert_paddleseg.py"
EXACT, ROUNDED = 1e-9, 1e-4


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {result.returncode}:\n{result.stdout}{result.stderr}")


def network(classes):
    """PP-LiteSeg-T, as its configuration for Cityscapes has it."""
    return PPLiteSeg(num_classes=classes, backbone=STDC1(), arm_out_chs=[32, 64, 128], seg_head_inter_chs=[32, 64, 64])


def draw(net, random):
    """Overwrites all weights and running statistics, so that nothing is 0 or 1 that could hide a mistake."""
    for name, tensor in net.state_dict().items():
        shape = tensor.shape
        if name.endswith("._scale"):  # the 1 of 1 - a
            continue
        if len(shape) == 4:
            values = random.normal(0, (2 / np.prod(shape[1:])) ** 0.5, shape)
        elif name.endswith(("._mean", ".bias")):
            values = random.normal(0, 0.1, shape)
        else:
            values = random.uniform(0.5, 1.5, shape)
        tensor.set_value(values.astype("float32"))


def logits_of(net, images):
    net.eval()
    net.to(dtype="float64")
    with paddle.no_grad():
        return net(paddle.to_tensor(images))[0].numpy()


def distance(ours, theirs):
    """The largest difference, in units of the largest number."""
    return float("inf") if ours.shape != theirs.shape else float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def row(what, value, bound):
    print(f"{what:75} {value:10.2e}  bound {bound:.0e}  {'ok' if value <= bound else 'BROKEN'}", flush=True)
    return value <= bound


class Comparison:
    def __init__(self, build, folder):
        self.build, self.folder, self.random = pathlib.Path(build), pathlib.Path(folder), np.random.default_rng(1)

    def ours(self, weights, images, classes):
        """What lockstep computes in float64 from a file of weights."""
        save_file({"images": images}, self.folder / "images.safetensors")
        (self.folder / "logits.safetensors").unlink(missing_ok=True)
        run(self.build / "tests/trainer_logits", "pp-liteseg", "auto", classes, weights, self.folder / "images.safetensors",
            self.folder / "logits.safetensors")
        return load_file(self.folder / "logits.safetensors")["logits"]

    def from_paddleseg(self):
        net = network(5)
        draw(net, self.random)
        paddle.save(net.state_dict(), str(self.folder / "model.pdparams"))
        run(sys.executable, CONVERTER, self.folder / "model.pdparams", self.folder / "converted.safetensors")
        held = True
        # PaddlePaddle interpolates with ratios in float32, which are exact where they are powers of 2.
        for height, width, bound in ((64, 128, EXACT), (70, 45, ROUNDED)):
            images = self.random.normal(size=(2, 3, height, width))
            ours = self.ours(self.folder / "converted.safetensors", images, 5)
            held &= row(f"drawn weights, {height}x{width}: lockstep beside PaddleSeg", distance(ours, logits_of(net, images)), bound)
        return held

    def to_paddleseg(self):
        run(self.build / "bin/train", "--model", "pp-liteseg", "--dataset", "synthetic-masks", "--batch", 4, "--steps", 3,
            "--eval-interval", "never", "--threads", 1, "--save-dir", self.folder / "run")
        weights = self.folder / "run/checkpoints/last/model.safetensors"
        with safe_open(weights, "np") as file:
            about = file.metadata()
        tensors = {name.replace(".running_mean", "._mean").replace(".running_var", "._variance"): array
                   for name, array in load_file(weights).items()}
        classes = int(about["lockstep.classes"])
        net = network(classes)
        missing, unexpected = net.set_state_dict(tensors)
        if unexpected or any(not name.endswith("._scale") for name in missing):
            sys.exit(f"the names differ: PaddleSeg's network misses {missing} and does not know {unexpected}")
        channels, height, width = map(int, about["lockstep.tensors"].split("\n")[0].split(" ")[1:4])
        images = self.random.uniform(size=(2, channels, height, width))
        mean, deviation = (np.array([float(number) for number in about[f"lockstep.{name}"].split()])[:, None, None]
                           for name in ("mean", "deviation"))
        normalized = (images - mean) / deviation
        theirs = logits_of(net, normalized)
        held = row("weights of train: PaddleSeg beside lockstep", distance(self.ours(weights, normalized, classes), theirs), EXACT)
        run(self.build / "bin/lockstep-export", self.folder / "run", "--onnx", self.folder / "model.onnx")
        session = onnxruntime.InferenceSession(str(self.folder / "model.onnx"), providers=["CPUExecutionProvider"])
        exported = session.run(["logits"], {"images": images.astype("float32")})[0]
        return row("weights of train: logits of lockstep-export in onnxruntime", distance(exported, theirs), ROUNDED) and held


def main(arguments):
    if len(arguments) != 1:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(arguments[0], folder)
        held = [comparison.from_paddleseg(), comparison.to_paddleseg()]
    return all(held)


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
