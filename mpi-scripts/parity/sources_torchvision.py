#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the samples that lockstep lists in folders of classes with those of torchvision's ImageFolder.

    sources_torchvision.py LIST_SAMPLES [FOLDER...]

LIST_SAMPLES is tests/vision_list_samples of a build. Besides the folders, one with awkward names is made and compared.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import torchvision.datasets

# What lockstep leaves out on purpose: kinds that it does not read, and names that begin with a dot.
SUFFIXES = (".jpg", ".jpeg", ".png")
AWKWARD = [
    "cat/b.jpg", "cat/a.jpg", "cat/B.jpg", "cat/10.png", "cat/9.png", "cat/z/1.JPG", "cat/a-b/1.jpeg", "cat/a/1.jpg",
    "cat/a/b/1.jpg", "cat/a.d/1.jpg", "Cat/1.jpg", "red panda/two words.jpg", "straße/grün.jpg", "dog/x.webp", "dog/x.txt",
    "dog/1.jpg",
]


def is_visible(path):
    return not any(part.startswith(".") for part in path.split(os.sep))


def of_torchvision(part):
    folder = torchvision.datasets.ImageFolder(
        part, is_valid_file=lambda path: path.lower().endswith(SUFFIXES) and is_visible(os.path.relpath(path, part)))
    return folder.classes, [(path, label) for path, label in folder.samples]


def of_lockstep(program, folder):
    run = subprocess.run([program, folder, "folder"], stdout=subprocess.PIPE, check=True)
    parts = {"train": ([], []), "val": ([], [])}
    for line in os.fsdecode(run.stdout).splitlines():
        part, label, _, name = line.split("\t", 3)
        if label == "classes":
            parts[part][0].append(name)
        else:
            parts[part][1].append((name, int(label)))
    return parts


def make_awkward(folder):
    for part in ("train", "val"):
        for name in AWKWARD:
            path = folder / part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
        latin = os.path.join(os.fsencode(folder / part / "dog"), b"latin\xfc.jpg")
        with open(latin, "wb") as file:
            file.write(b"x")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/linked.jpg").write_bytes(b"x")
    (folder / "train/dog/link").symlink_to(folder / "elsewhere")
    (folder / "train/wolf").symlink_to(folder / "elsewhere")


def compare(program, folder):
    folder = pathlib.Path(folder)
    ours = of_lockstep(program, folder)
    differences = 0
    for name, part in (("train", folder / "train"), ("val", folder / ("val" if (folder / "val").is_dir() else "test"))):
        classes, samples = ours[name]
        if name == "val" and set(os.listdir(part)) != set(os.listdir(folder / "train")):
            print(f"{part}: labels are not compared, because its classes are not those of train")
            continue
        their_classes, their_samples = of_torchvision(str(part))
        same = classes == their_classes and samples == their_samples
        print(f"{part}: {len(samples)} samples in {len(classes)} classes: " + ("same" if same else "DIFFERENT"))
        if not same:
            differences += 1
            for a, b in zip(samples, their_samples):
                if a != b:
                    print(f"  lockstep {a}, torchvision {b}")
                    break
            print(f"  {len(samples)} and {len(their_samples)} samples; classes {classes[:5]} and {their_classes[:5]}")
    return differences


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    differences = sum(compare(sys.argv[1], folder) for folder in sys.argv[2:])
    with tempfile.TemporaryDirectory() as folder:
        make_awkward(pathlib.Path(folder))
        (pathlib.Path(folder) / "val/wolf").mkdir()
        (pathlib.Path(folder) / "val/wolf/1.jpg").write_bytes(b"x")
        differences += compare(sys.argv[1], folder)
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
