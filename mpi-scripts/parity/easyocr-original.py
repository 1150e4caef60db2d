#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""easyocr-original.py PROGRAMS: see easyocr.sh. PROGRAMS is the folder with lockstep-export."""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
import torch
from safetensors.torch import load_file, save_file

BOUND = 1e-4
CHARACTERS = 96
WIDTHS = (40, 100, 256)
CONVERTER = pathlib.Path(__file__).resolve().parents[1] / "convert_weights.py"


def folder_of(package):
    return pathlib.Path(importlib.util.find_spec(package).submodule_search_locations[0])


def original(weights):
    """EasyOCR's network. Its package cannot be imported as a whole without what finds lines in pictures."""
    sys.path.insert(0, str(folder_of("easyocr")))
    from model.vgg_model import Model  # pylint: disable=import-outside-toplevel,import-error

    network = Model(1, 256, 256, CHARACTERS + 1)
    state = torch.load(weights, map_location="cpu", weights_only=True)
    network.load_state_dict({name.removeprefix("module."): tensor for name, tensor in state.items()})
    return network.eval()


def exported(programs, weights, width, folder):
    """A session with the converted weights for lines of a width; bytes stand for -1 to 1, as in EasyOCR."""
    converted, described, file = (folder / name for name in ("converted.safetensors", "model.safetensors", "model.onnx"))
    subprocess.run([sys.executable, CONVERTER, weights, converted], check=True, stdout=subprocess.DEVNULL)
    texts = {"model": "crnn-vgg", "classes": str(CHARACTERS), "mean": "0.5", "deviation": "0.5",
             "tensors": f"images 1 64 {width}\ntargets 1 1 25 integer\ntarget_lengths 1 1 1 integer"}
    save_file(load_file(converted), described, metadata={f"lockstep.{key}": text for key, text in texts.items()})
    subprocess.run([programs / "lockstep-export", described, "--onnx", file], check=True, stdout=subprocess.DEVNULL)
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])


def main():
    programs = pathlib.Path(sys.argv[1])
    torch.manual_seed(1)
    torch.set_num_threads(1)
    weights = folder_of("easyocr_en_models") / "models/english_g2.pth"
    network = original(weights)
    good = True
    for width in WIDTHS:
        pixels = torch.rand(3, 1, 64, width)
        with torch.no_grad():
            expected = network(2 * pixels - 1, "").numpy()
        with tempfile.TemporaryDirectory() as folder:
            [found] = exported(programs, weights, width, pathlib.Path(folder)).run(None, {"images": pixels.numpy()})
        difference = float(np.abs(found - expected).max() / np.abs(expected).max())
        same = bool((found.argmax(2) == expected.argmax(2)).all())
        print(f"width {width:4}: {found.shape[1]:3} steps, largest difference {difference:.1e} of the largest logit, "
              f"likeliest classes {'equal' if same else 'DIFFER'}")
        good = good and same and difference <= BOUND
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
