# SPDX-License-Identifier: Apache-2.0
"""A data set with boxes for tests of detectors."""
import os
import pathlib
import tarfile
import unittest

PARTS = {"train": 8, "val": 4}  # pictures of BCCD's parts, so that a run is short


def bccd(folder, root):
    """Unpacks the first pictures of BCCD below the folder, in Pascal VOC's layout. Skips the test where there is no BCCD."""
    archive = pathlib.Path(os.environ.get("LOCKSTEP_DATA", root.parent / "shared/data")) / "bccd.tar"
    if not archive.exists():
        if "bccd" in os.environ.get("LOCKSTEP_REQUIRE", "").split(","):
            raise FileNotFoundError(f"LOCKSTEP_REQUIRE names bccd, and {archive} is missing")
        raise unittest.SkipTest(f"[bccd] {archive} is missing")
    with tarfile.open(archive) as tar:
        for part, count in PARTS.items():
            list_name = f"bccd/ImageSets/Main/{part}.txt"
            names = tar.extractfile(list_name).read().decode().split()[:count]
            for name in names:
                for file in (f"bccd/JPEGImages/{name}.jpg", f"bccd/Annotations/{name}.xml"):
                    tar.extract(file, folder)
            (folder / list_name).parent.mkdir(parents=True, exist_ok=True)
            (folder / list_name).write_text("\n".join(names) + "\n")
    return folder / "bccd"
