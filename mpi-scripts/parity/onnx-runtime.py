#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""onnx-runtime.py PROGRAMS [MODEL...]: see onnx.sh. PROGRAMS is the folder with train and lockstep-export."""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch
from safetensors.torch import save_file

import lockstep_models

BOUND = 1e-4
DATASETS = {"crnn": "synthetic-words", "detector": "synthetic-boxes", "pp-liteseg": "synthetic-masks",
            "unet": "synthetic-masks"}  # the others: synthetic-cifar
READERS = {"crnn-mv3": (3, 32, 100), "crnn-vgg": (1, 64, 100)}  # no drawn data set has images of their height
CHARACTERS = 36
STEMS = ("mobilenet-v2", "resnet18", "resnet34", "resnet50", "vgg11-bn")  # of both forms
# yolov5.sh compares yolov5n and yolov5s.
MODELS = [name for name in lockstep_models.MODELS if not name.startswith("yolov5")]


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {result.returncode}:\n{result.stdout}{result.stderr}")


def session_of(file):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def drawn(name, file):
    """Writes random weights, with running statistics as after some steps."""
    extents = READERS[name]
    module = lockstep_models.MODELS[name]({"images": extents}, CHARACTERS)
    for buffer_name, buffer in module.named_buffers():
        if buffer_name.endswith("running_mean"):
            buffer.normal_(0, 0.1)
        elif buffer_name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    tensors = {key: tensor for key, tensor in module.state_dict().items() if tensor.is_floating_point()}
    half = " ".join(["0.5"] * extents[0])
    texts = {"model": name, "classes": str(CHARACTERS), "mean": half, "deviation": half,
             "tensors": "images %d %d %d\ntargets 1 1 25 integer\ntarget_lengths 1 1 1 integer" % extents}
    save_file(tensors, file, metadata={f"lockstep.{key}": text for key, text in texts.items()})


def exported(programs, name, stem, folder):
    """A file of weights, of a checkpoint after some steps where a drawn data set fits, and the file that is made of it."""
    file = folder / "model.onnx"
    if name in READERS:
        drawn(name, folder / "model.safetensors")
        run(programs / "lockstep-export", folder / "model.safetensors", "--onnx", file)
        return folder, file
    run(programs / "train", "--model", name, "--stem", stem, "--dataset", DATASETS.get(name, "synthetic-cifar"), "--batch", 4,
        "--steps", 3, "--eval-interval", "never", "--lr", 0.001, "--save-dir", folder / "run")
    run(programs / "lockstep-export", folder / "run", "--onnx", file)
    return folder / "run/checkpoints/last", file


def compare(programs, name, stem, folder):
    checkpoint, file = exported(programs, name, stem, folder)
    onnx.checker.check_model(onnx.load(file), full_check=True)
    session = session_of(file)
    module, about = lockstep_models.load(checkpoint)
    (images, *lengths), [output] = session.get_inputs(), session.get_outputs()
    assert images.name == "images" and images.shape == ["batch", *about["images"]], (images.name, images.shape)
    assert output.shape[0] == "batch", output.shape
    if name not in DATASETS and name not in READERS:
        assert output.name == "logits" and output.shape == ["batch", about["classes"]], (output.name, output.shape)
    metadata = session.get_modelmeta().custom_metadata_map
    assert lockstep_models.described(metadata)["mean"] == about["mean"], metadata
    worst = 0
    for samples in (1, 3):
        pixels = torch.rand(samples, *about["images"])
        # Of a reader with lengths, from 1 step to all, of four pixels each.
        steps = [torch.randint(1, about["images"][2] // 4 + 1, (samples,)) for _ in lengths]
        with torch.no_grad():
            expected = module(lockstep_models.normalized(pixels, about), *steps).numpy()
        if name in READERS:
            expected = expected[:, :, 0].transpose(0, 2, 1)
        found = session.run([output.name], {"images": pixels.numpy()} |
                            {of.name: tensor.int().numpy() for of, tensor in zip(lengths, steps)})[0]
        assert found.shape == expected.shape, (found.shape, expected.shape)
        worst = max(worst, float(np.abs(found - expected).max() / np.abs(expected).max()))
    print(f"{name:14}{stem:>10}{output.name:>10}{worst:12.1e}", flush=True)
    return worst <= BOUND


def main():
    programs, *models = sys.argv[1:]
    torch.manual_seed(1)
    torch.set_num_threads(1)
    print(f"{'model':14}{'stem':>10}{'output':>10}{'difference':>12}   relative, onnxruntime {onnxruntime.__version__}")
    good = True
    for name in models or MODELS:
        for stem in ("cifar", "imagenet") if name in STEMS else ("auto",):
            with tempfile.TemporaryDirectory() as folder:
                good = compare(pathlib.Path(programs), name, stem, pathlib.Path(folder)) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
