#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if updates of weights take the square roots of Adam and LAMB one at a time, which no result tells.

  vectorized.py OBJDUMP ARCHIVE    ARCHIVE is the room ops, compiled by gcc for x86
"""
import re
import subprocess
import sys

objdump, archive = sys.argv[1:]
text = subprocess.run([objdump, "-d", "-C", "--no-show-raw-insn", archive], stdout=subprocess.PIPE, text=True, check=True).stdout
missing = []
for function, version, register in (("update_float32", "avx512f", "zmm"), ("update_float32", "avx2", "ymm"),
                                    ("lamb_moments_float32", "avx512f", "ymm"), ("lamb_moments_float32", "avx2", "ymm")):
    bodies = re.findall(rf"<[^\n]*\b{function}\([^\n]*{version}\]>:\n(.*?)\n\n", text + "\n\n", re.DOTALL)
    if not any(re.search(rf"sqrtps\s.*%{register}", body) for body in bodies):
        missing.append(f"{function} for {version}: {len(bodies)} bodies, no square root in {register}")
if missing:
    sys.exit("error: " + "\n       ".join(missing))
