#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the six files of CIFAR-10's binary format of a folder of images, for train --dataset cifar10.

    cifar10.py IMAGES OUT

IMAGES is a folder, or a .tar.gz of one, with train/<class>/*.jpg and test/<class>/*.jpg (or .png) of 32x32 pixels in
RGB; classes are numbered in the order of their names. Classes take turns, so that each file has all of them. Nothing
is written unless every image can be read. Needs Pillow; without it a virtual environment is made in build/images-venv.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path

SIDE = 32
CLASSES = 10
FILES = {"train": [f"data_batch_{i + 1}.bin" for i in range(5)], "test": ["test_batch.bin"]}


def fail(what):
    sys.exit(f"error: {what}")


def with_pillow():
    """This program's Python, or another one, goes on where Pillow is."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        venv = Path(__file__).resolve().parent.parent / "build/images-venv"
        python = venv / "bin/python"
        if Path(sys.executable) == python:
            fail("Pillow cannot be imported in build/images-venv; remove that, and it is made again")
        try:
            if not python.exists():
                subprocess.run([sys.executable, "-m", "venv", venv], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", "Pillow==12.0.0"], check=True)
        except subprocess.CalledProcessError:
            fail("Pillow could not be installed in build/images-venv; remove that, and install Pillow for python3")
        os.execv(python, [python, *sys.argv])


def record(path, label):
    import PIL.Image

    try:
        with PIL.Image.open(path) as image:
            if image.size != (SIDE, SIDE) or image.mode != "RGB":
                fail(f"{path} is {image.size[0]}x{image.size[1]} {image.mode}, not {SIDE}x{SIDE} RGB")
            return bytes([label]) + b"".join(band.tobytes() for band in image.split())
    except (OSError, SyntaxError) as error:  # Pillow has the latter for some damaged files
        fail(f"{path} cannot be read as an image: {error}")


def images_of(folder):
    """Images of a class in the order of their names; what the system hides there does not count."""
    files = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    for file in files:
        if file.suffix not in (".jpg", ".png"):
            fail(f"{file} is neither .jpg nor .png")
    return files


def records_of(folder):
    """Records of a part, classes taking turns, and how many images each class has."""
    classes = sorted(entry for entry in folder.iterdir() if entry.is_dir())
    if len(classes) != CLASSES:
        fail(f"{folder} has {len(classes)} folders of classes, not {CLASSES}")
    files = [images_of(one) for one in classes]
    records = []
    for turn in range(max(map(len, files))):
        for label, of_class in enumerate(files):
            if turn < len(of_class):
                records.append(record(of_class[turn], label))
    return records, {one.name: len(of_class) for one, of_class in zip(classes, files)}


def write(images, out):
    for part in FILES:
        if not (images / part).is_dir():
            fail(f"{images} has no folder {part}; give what has train/<class> and test/<class>")
    parts = {part: records_of(images / part) for part in FILES}
    if [*parts["train"][1]] != [*parts["test"][1]]:
        fail(f"the classes in {images}/train are {', '.join(parts['train'][1])}, in test {', '.join(parts['test'][1])}")
    for part, names in FILES.items():
        if len(parts[part][0]) < len(names):
            fail(f"{images / part} has {len(parts[part][0])} images, too few for {len(names)} files")
    out.mkdir(parents=True, exist_ok=True)
    for part, names in FILES.items():
        records, counts = parts[part]
        for i, name in enumerate(names):
            batch = records[len(records) * i // len(names):len(records) * (i + 1) // len(names)]
            (out / name).write_bytes(b"".join(batch))
        print(f"{part}: {len(records)} images, " + ", ".join(f"{name} {count}" for name, count in counts.items()))


def write_archive(images, out):
    if not hasattr(tarfile, "data_filter"):
        fail(f"this Python cannot unpack {images} safely; unpack it and give the folder")
    with tempfile.TemporaryDirectory() as unpacked:
        try:
            with tarfile.open(images) as archive:
                archive.extractall(unpacked, filter="data")
        except (tarfile.TarError, EOFError, zlib.error) as error:
            fail(f"{images} is neither a folder nor an archive that can be unpacked: {str(error).splitlines()[0]}")
        top = [*Path(unpacked).iterdir()]
        write(top[0] if len(top) == 1 else Path(unpacked), out)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    images, out = Path(sys.argv[1]), Path(sys.argv[2])
    if not images.exists():
        fail(f"{images} does not exist")
    if out.exists() and not out.is_dir():
        fail(f"{out} is not a folder")
    with_pillow()
    if images.is_dir():
        write(images, out)
    else:
        write_archive(images, out)


if __name__ == "__main__":
    main()
