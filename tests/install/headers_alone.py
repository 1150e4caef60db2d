#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles public headers alone: headers_alone.py ROOT COMPILER [OPTION...]

A header that a source of the library includes before anything else has been compiled alone already, where each source is
compiled by itself, as in the stage nocuda of test.sh. Only the others are compiled here, two at a time.
"""
import concurrent.futures
import pathlib
import re
import subprocess
import sys

# mpi_family.hpp is for whoever has included mpi.h, and says so. torch.hpp needs libtorch; torch-ddp.sh compiles it.
AFTER_MPI = "lockstep/platform/mpi/mpi_family.hpp"
WITH_LIBTORCH = "lockstep/torch.hpp"


def first_include(source):
    found = re.search(r'^#include ["<]([^">]+)', source.read_text(), re.MULTILINE)
    return found.group(1) if found else None


def complaint_about(header, root, command):
    """What the compiler says about a file that includes this header and nothing else; empty if it takes it."""
    before = "#include <mpi.h>\n" if header == AFTER_MPI else ""
    result = subprocess.run([*command, "-std=c++20", "-fsyntax-only", "-I", root / "include", "-x", "c++", "-"],
                            input=f"{before}#include <{header}>\n", capture_output=True, text=True)
    return f"{header} does not compile alone:\n{result.stderr}" if result.returncode != 0 else ""


def main():
    root, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
    headers = {str(path.relative_to(root / "include")) for path in (root / "include").rglob("*.hpp")}
    proven = {first_include(source) for source in (root / "src").rglob("*.cpp")}
    rest = sorted(headers - proven - {WITH_LIBTORCH})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        complaints = [text for text in pool.map(lambda header: complaint_about(header, root, command), rest) if text]
    print("\n".join(complaints) or f"{len(headers)} public headers; {len(rest)} were compiled here")
    return 1 if complaints or not headers else 0


sys.exit(main())
