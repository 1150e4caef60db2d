#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shared library exports the functions of lockstep.h, and nothing else: symbols.py HEADER LIBRARY"""
import pathlib
import re
import subprocess
import sys


def main():
    header, library = sys.argv[1:]
    text = re.sub(r"/\*.*?\*/", "", pathlib.Path(header).read_text(encoding="utf-8"), flags=re.DOTALL)
    declared = set(re.findall(r"^(?:int|const char\*) (lockstep_\w+)\(", text, flags=re.MULTILINE))
    names = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1] for line in names.splitlines()}
    wrong = [f"{name} is declared and not exported" for name in sorted(declared - exported)]
    wrong += [f"{name} is exported and not declared" for name in sorted(exported - declared)]
    if wrong or not declared:
        sys.exit("\n".join(wrong) or f"{header} declares nothing")
    print(f"{len(declared)} functions")


if __name__ == "__main__":
    main()
