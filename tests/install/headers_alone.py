#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles each public header alone: headers_alone.py ROOT COMPILER [OPTION...]"""
import concurrent.futures
import pathlib
import subprocess
import sys

# mpi_family.hpp is for whoever has included mpi.h, and says so. torch.hpp needs libtorch; torch-ddp.sh compiles it.
AFTER_MPI = "lockstep/mpi/from_mpi.hpp"
WITH_LIBTORCH = "lockstep/torch.hpp"


def complaint_about(header, root, command):
    """What the compiler says about a file that includes this header and nothing else; empty if it takes it."""
    before = "#include <mpi.h>\n" if header == AFTER_MPI else ""
    result = subprocess.run([*command, "-std=c++20", "-fsyntax-only", "-I", root / "include", "-x", "c++", "-"],
                            input=f"{before}#include <{header}>\n", capture_output=True, text=True)
    return f"{header} does not compile alone:\n{result.stderr}" if result.returncode != 0 else ""


def main():
    root, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
    headers = sorted({str(path.relative_to(root / "include")) for path in (root / "include").rglob("*.hpp")} - {WITH_LIBTORCH})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        complaints = [text for text in pool.map(lambda header: complaint_about(header, root, command), headers) if text]
    print("\n".join(complaints) or f"{len(headers)} public headers compile alone")
    return 1 if complaints or not headers else 0


sys.exit(main())
