#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the six files of CIFAR-10's binary format of a folder of images, for train --dataset cifar10.

    cifar10.py IMAGES OUT

IMAGES is a folder, or a .tar.gz of one, with train/<class>/*.jpg and test/<class>/*.jpg of 32x32 pixels; classes are
numbered in the order of their names. Classes take turns, so that each file has all of them. Needs Pillow; without it a
virtual environment is made in build/images-venv.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

SIDE = 32
BATCHES = 5


def with_pillow():
    """This program's Python, or another one, goes on where Pillow is."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        venv = Path(__file__).resolve().parent.parent / "build/images-venv"
        python = venv / "bin/python"
        if Path(sys.executable) == python:
            sys.exit("error: Pillow cannot be imported in build/images-venv")
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "Pillow==12.0.0"], check=True)
        os.execv(python, [python, *sys.argv])


def record(path, label):
    import PIL.Image

    with PIL.Image.open(path) as image:
        if image.size != (SIDE, SIDE) or image.mode != "RGB":
            sys.exit(f"error: {path} is {image.size[0]}x{image.size[1]} {image.mode}, not {SIDE}x{SIDE} RGB")
        return bytes([label]) + b"".join(band.tobytes() for band in image.split())


def records_of(folder):
    """Records of a part, classes taking turns, and how many images each class has."""
    classes = sorted(entry for entry in folder.iterdir() if entry.is_dir())
    if len(classes) != 10:
        sys.exit(f"error: {folder} has {len(classes)} folders of classes, not 10")
    files = [sorted(one.glob("*.jpg")) + sorted(one.glob("*.png")) for one in classes]
    records = []
    for turn in range(max(map(len, files))):
        for label, of_class in enumerate(files):
            if turn < len(of_class):
                records.append(record(of_class[turn], label))
    return records, {one.name: len(of_class) for one, of_class in zip(classes, files)}


def write(images, out):
    for part in ("train", "test"):
        if not (images / part).is_dir():
            sys.exit(f"error: {images} has no folder {part}; give the one with train/<class> and test/<class>")
    out.mkdir(parents=True, exist_ok=True)
    for part, names in (("train", [f"data_batch_{i + 1}.bin" for i in range(BATCHES)]), ("test", ["test_batch.bin"])):
        records, counts = records_of(images / part)
        for i, name in enumerate(names):
            batch = records[len(records) * i // len(names):len(records) * (i + 1) // len(names)]
            (out / name).write_bytes(b"".join(batch))
        print(f"{part}: {len(records)} images, " + ", ".join(f"{name} {count}" for name, count in counts.items()))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    images, out = Path(sys.argv[1]), Path(sys.argv[2])
    if not images.exists():
        sys.exit(f"error: {images} does not exist")
    with_pillow()
    if images.is_dir():
        return write(images, out)
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(images) as archive:
            archive.extractall(unpacked, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(unpacked)
        write(Path(unpacked), out)


if __name__ == "__main__":
    main()
