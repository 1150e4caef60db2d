#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""yolov5-original.py PROGRAMS [MODEL...]: see yolov5.sh. PROGRAMS is the folder with train and lockstep-export."""
import pathlib
import subprocess
import sys
import tempfile
import types

import numpy as np
import onnxruntime
import safetensors.torch
import torch
from PIL import Image, ImageDraw

import lockstep_models

BOUND = 1e-4
SIZE = 96
NAMES = ("disk", "square", "bar")


def theirs():
    """The modules of the package, which expects a service's client that is not needed."""
    sys.modules.setdefault("yolov5.utils.roboflow", types.ModuleType("roboflow")).RoboflowConnector = object
    import yolov5  # pylint: disable=import-outside-toplevel
    from yolov5.models.yolo import Model  # pylint: disable=import-outside-toplevel
    return pathlib.Path(yolov5.__file__).parent, Model


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


def draw(folder, count, seed):
    """Pictures of shapes with labels, as YOLOv5 has them."""
    random = np.random.default_rng(seed)
    for part in ("images", "labels"):
        (folder / part).mkdir(parents=True)
    for number in range(count):
        picture = Image.fromarray(random.integers(80, 120, (SIZE, SIZE, 3), dtype=np.uint8))
        pen, lines = ImageDraw.Draw(picture), []
        for _ in range(random.integers(1, 4)):
            label, side = int(random.integers(3)), int(random.integers(10, 40))
            width, height = side, side if label < 2 else max(6, side // 3)
            left, top = int(random.integers(SIZE - width)), int(random.integers(SIZE - height))
            (pen.ellipse if label == 0 else pen.rectangle)((left, top, left + width, top + height), fill=(200, 60 * label, 40))
            lines.append(f"{label} {(left + width / 2) / SIZE} {(top + height / 2) / SIZE} {width / SIZE} {height / SIZE}")
        picture.save(folder / f"images/{number}.png")
        (folder / f"labels/{number}.txt").write_text("\n".join(lines) + "\n")


def data_of(folder):
    draw(folder / "train", 40, 1)
    draw(folder / "val", 8, 2)
    (folder / "data.yaml").write_text(f"path: {folder}\ntrain: train/images\nval: val/images\nnames: [{', '.join(NAMES)}]\n")
    return folder / "data.yaml"


def distance(ours, original):
    """The largest difference, relative to the largest number."""
    ours, original = np.asarray(ours), np.asarray(original)
    if ours.shape != original.shape:
        return float("inf")
    return float(np.abs(ours - original).max() / np.abs(original).max())


def row(what, value, bound=BOUND):
    print(f"{what:70} {value:10.2e}  bound {bound:.0e}  {'ok' if value <= bound else 'BROKEN'}", flush=True)
    return value <= bound


def images(count):
    return torch.rand(count, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(3))


def forward_weights(programs, name, folder):
    """Weights that train has written, in the original's own model."""
    package, model_class = theirs()
    data = data_of(folder / "data")
    run(programs / "train", "--data", data, "--model", name, "--img", SIZE, "--batch", 8, "--epochs", 2, "--eval-interval", "never",
        "--workers", 0, "--save-dir", folder / "run")
    file = folder / "run/checkpoints/last/model.safetensors"
    original = model_class(str(package / f"models/{name}.yaml"), ch=3, nc=len(NAMES))
    missing, unexpected = original.load_state_dict(safetensors.torch.load_file(file), strict=False)
    held = not unexpected and all(each.endswith("num_batches_tracked") for each in missing)
    if not held:
        print(f"{name}: names differ: missing {missing}, unexpected {unexpected}")
    original.eval()
    x = images(3)
    with torch.no_grad():
        boxes, maps = original(x)
        ours, about = lockstep_models.load(file)
        assert about["class_names"] == list(NAMES)
        our_maps = ours(x)
        their_maps = [m.permute(0, 1, 4, 2, 3).flatten(1, 2) for m in maps]
        held &= row(f"{name}: anchors", distance(ours.model[24].anchors, original.model[-1].anchors), 1e-7)
        for level, (mine, other) in enumerate(zip(our_maps, their_maps)):
            held &= row(f"{name}: map {level} of lockstep_models.py beside YOLOv5's", distance(mine, other))
        held &= row(f"{name}: boxes of lockstep_models.py beside YOLOv5's", distance(ours.decoded(our_maps), boxes))
        run(programs / "lockstep-export", folder / "run", "--onnx", folder / "model.onnx")
        session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
        decoded = session.run(["output0"], {session.get_inputs()[0].name: x.numpy()})[0]
        held &= row(f"{name}: output0 of lockstep-export in onnxruntime beside YOLOv5's", distance(decoded, boxes))
    return held


def backward_weights(name, folder):
    """A .pt file in lockstep's models."""
    package, model_class = theirs()
    torch.manual_seed(1)
    original = model_class(str(package / f"models/{name}.yaml"), ch=3, nc=len(NAMES))
    original.names = dict(enumerate(NAMES))
    with torch.no_grad():
        for buffer_name, buffer in original.named_buffers():
            if "running" in buffer_name:
                buffer.uniform_(0.5, 1.5)
    original.half()
    torch.save({"epoch": -1, "model": None, "ema": original}, folder / "original.pt")
    run(sys.executable, pathlib.Path(__file__).parents[1] / "convert_yolov5.py", folder / "original.pt",
        folder / "converted.safetensors", "--img", SIZE)
    original.float().eval()
    ours, about = lockstep_models.load(folder / "converted.safetensors")
    x = images(2)
    with torch.no_grad():
        return (about["model"], about["class_names"]) == (name, list(NAMES)) and \
            row(f"{name}: boxes after convert_yolov5.py", distance(ours.decoded(ours(x)), original(x)[0]))


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    held = []
    for name in arguments[1:] or ("yolov5n", "yolov5s"):
        with tempfile.TemporaryDirectory() as folder:
            held.append(backward_weights(name, pathlib.Path(folder)))
            held.append(forward_weights(pathlib.Path(arguments[0]), name, pathlib.Path(folder)))
    return all(held)


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
