#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pictures.py PICTURE_BYTES BCCD_TAR SECONDS: see pictures.sh. Pictures a second on one core, lockstep and others in turn."""
import io
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

import PIL
from PIL import Image

TO = (299, 224)  # of 640×480, as torchvision's Resize(224)
PAIRS = 7
BILINEAR = Image.Resampling.BILINEAR


def rate_of(call, files, seconds):
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        call(files[count % len(files)])
        count += 1
    return count / (time.perf_counter() - begin)


def pillow(data):
    return Image.open(io.BytesIO(data)).convert("RGB").resize(TO, BILINEAR)


def pillow_draft(data):
    picture = Image.open(io.BytesIO(data))
    picture.draft("RGB", TO)
    return picture.convert("RGB").resize(TO, BILINEAR)


def others():
    """Yields name, what lockstep does meanwhile, and the call."""
    yield f"Pillow {PIL.__version__}, whole picture", "", pillow
    yield f"Pillow {PIL.__version__}, draft", "side 224", pillow_draft
    yield f"Pillow {PIL.__version__}, whole picture, beside lockstep's scaled", "side 224", pillow
    try:
        import torch
        import torchvision
        from torchvision.transforms.v2 import functional
    except ImportError:
        print("torchvision is not here and left out")
        return
    torch.set_num_threads(1)
    version = torchvision.__version__

    def tensors(data):
        encoded = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        picture = torchvision.io.decode_jpeg(encoded, mode=torchvision.io.ImageReadMode.RGB)
        return functional.resize(picture, [224], antialias=True)

    def pictures(data):
        return functional.pil_to_tensor(functional.resize(Image.open(io.BytesIO(data)).convert("RGB"), [224]))

    yield f"torchvision {version}, tensors", "", tensors
    yield f"torchvision {version}, Pillow", "", pictures


def main():
    program, archive, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as tar:
            members = [m for m in tar if m.name.endswith(".jpg")][:32]
            tar.extractall(folder, members)
        paths = [pathlib.Path(folder, m.name) for m in members]
        files = [path.read_bytes() for path in paths]
        for name, options, call in others():
            commands = [f"{path} {options} resize {TO[0]} {TO[1]}" for path in paths]
            ratios, ours, theirs = [], [], []
            for _ in range(PAIRS):
                asked = subprocess.run([program, "--seconds", str(seconds), *commands], check=True, capture_output=True)
                ours.append(float(asked.stdout))
                theirs.append(rate_of(call, files, seconds))
                ratios.append(ours[-1] / theirs[-1])
            print(f"{name}: lockstep {statistics.median(ours):.0f}/s, it {statistics.median(theirs):.0f}/s, "
                  f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


main()
