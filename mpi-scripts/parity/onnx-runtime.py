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

import lockstep_models

BOUND = 1e-4
DATASETS = {"detector": "synthetic-boxes", "pp-liteseg": "synthetic-masks", "unet": "synthetic-masks"}  # the others: synthetic-cifar
STEMS = ("mobilenet-v2", "resnet18", "resnet34", "resnet50", "vgg11-bn")  # of both forms
# The LSTM of crnn is not exported; yolov5.sh compares yolov5n and yolov5s.
MODELS = [name for name in lockstep_models.MODELS if name != "crnn" and not name.startswith("yolov5")]


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {result.returncode}:\n{result.stdout}{result.stderr}")


def session_of(file):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def exported(programs, name, stem, folder):
    """A checkpoint after some steps, and the file that is made of it."""
    run(programs / "train", "--model", name, "--stem", stem, "--dataset", DATASETS.get(name, "synthetic-cifar"), "--batch", 4,
        "--steps", 3, "--eval-interval", "never", "--lr", 0.001, "--save-dir", folder / "run")
    file = folder / "model.onnx"
    run(programs / "lockstep-export", folder / "run", "--onnx", file)
    return folder / "run/checkpoints/last", file


def compare(programs, name, stem, folder):
    checkpoint, file = exported(programs, name, stem, folder)
    onnx.checker.check_model(onnx.load(file), full_check=True)
    session = session_of(file)
    module, about = lockstep_models.load(checkpoint)
    [images], [output] = session.get_inputs(), session.get_outputs()
    assert images.name == "images" and images.shape == ["batch", *about["images"]], (images.name, images.shape)
    assert output.shape[0] == "batch", output.shape
    if name not in DATASETS:
        assert output.name == "logits" and output.shape == ["batch", about["classes"]], (output.name, output.shape)
    metadata = session.get_modelmeta().custom_metadata_map
    assert lockstep_models.described(metadata)["mean"] == about["mean"], metadata
    worst = 0
    for samples in (1, 3):
        pixels = torch.rand(samples, *about["images"])
        with torch.no_grad():
            expected = module(lockstep_models.normalized(pixels, about)).numpy()
        found = session.run([output.name], {"images": pixels.numpy()})[0]
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
