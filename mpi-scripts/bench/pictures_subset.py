#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pictures_subset.py FOLDER FRACTION OUT: makes a folder of classes with links to the first pictures of each class of FOLDER."""
import os
import pathlib
import sys


def main():
    source, fraction, out = pathlib.Path(sys.argv[1]).resolve(), float(sys.argv[2]), pathlib.Path(sys.argv[3])
    if not 0 < fraction <= 1:
        sys.exit(f"error: the fraction {fraction} is not above 0 and at most 1")
    count = 0
    for folder in sorted(path for path in source.glob("*/*") if path.is_dir()):
        files = sorted(file for file in folder.iterdir() if not file.name.startswith("."))
        files = files[:max(1, round(len(files) * fraction))]
        target = out / folder.relative_to(source)
        target.mkdir(parents=True, exist_ok=True)
        wanted = {file.name for file in files}
        for extra in (entry for entry in target.iterdir() if entry.name not in wanted):
            extra.unlink()
        for file in files:
            link = target / file.name
            if not link.exists():
                os.link(file, link)  # hard, because finding a file through a symbolic link takes twice as long
        count += len(files)
    print(f"{out}: links to {count} pictures of {source}")


main()
