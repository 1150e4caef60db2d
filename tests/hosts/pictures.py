# SPDX-License-Identifier: Apache-2.0
"""Small data sets of real pictures, one for each workload: boxes, masks and texts."""
import os
import pathlib
import tarfile
import unittest

COUNTS = {"train": 8, "val": 4}  # pictures of each part, so that a run is short


def archive_of(name, root):
    """Returns the archive. Skips the test where there is none, unless LOCKSTEP_REQUIRE names it."""
    path = pathlib.Path(os.environ.get("LOCKSTEP_DATA", root.parent / "shared/data")) / f"{name}.tar"
    if not path.exists():
        if name in os.environ.get("LOCKSTEP_REQUIRE", "").split(","):
            raise FileNotFoundError(f"LOCKSTEP_REQUIRE names {name}, and {path} is missing")
        raise unittest.SkipTest(f"[{name}] {path} is missing")
    return path


def bccd(folder, root):
    """Unpacks the first pictures of BCCD below the folder, in Pascal VOC's layout."""
    with tarfile.open(archive_of("bccd", root)) as tar:
        for part, count in COUNTS.items():
            list_name = f"bccd/ImageSets/Main/{part}.txt"
            names = tar.extractfile(list_name).read().decode().split()[:count]
            for name in names:
                for file in (f"bccd/JPEGImages/{name}.jpg", f"bccd/Annotations/{name}.xml"):
                    tar.extract(file, folder)
            (folder / list_name).parent.mkdir(parents=True, exist_ok=True)
            (folder / list_name).write_text("\n".join(names) + "\n")
    return folder / "bccd"


def nuclei(folder, root):
    """Unpacks the first pictures of cell nuclei below the folder, in PaddleSeg's lists of pictures and masks."""
    with tarfile.open(archive_of("nuclei", root)) as tar:
        for part, count in COUNTS.items():
            lines = tar.extractfile(f"nuclei/{part}.txt").read().decode().splitlines()[:count]
            for line in lines:
                for file in line.split():
                    tar.extract(f"nuclei/{file}", folder)
            (folder / f"nuclei/{part}.txt").write_text("\n".join(lines) + "\n")
    return folder / "nuclei"


def numbered(folder, root):
    """The same pictures in PaddleOCR's lists. Their texts are the numbers in the names of their files."""
    masks = nuclei(folder, root)
    for part in COUNTS:
        names = [line.split()[0] for line in (masks / f"{part}.txt").read_text().splitlines()]
        (masks / f"rec_gt_{part}.txt").write_text("".join(f"{name}\t{pathlib.Path(name).stem.rpartition('_')[2]}\n" for name in names))
    for part in COUNTS:
        (masks / f"{part}.txt").unlink()
    return masks
