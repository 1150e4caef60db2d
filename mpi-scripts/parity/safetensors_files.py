#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""safetensors_files.py STATE_COPY: see safetensors.sh. STATE_COPY reads a file and writes another one of its tensors."""
import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
import safetensors
from safetensors.numpy import save_file

DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int64, np.int32, np.uint8]


def tensors_of(shape, random, count):
    """`count` tensors of each dtype, of random bits."""
    tensors = {}
    for dtype in DTYPES:
        for number in range(count):
            bits = random.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize)
            tensors[f"layer.{number}.{np.dtype(dtype).name}"] = np.frombuffer(bits, dtype).reshape(shape)
    return tensors


def main():
    copy = sys.argv[1]
    random = np.random.default_rng(1)
    cases = {
        "every dtype": (tensors_of((3, 1, 5), random, 1), None),
        "many": (tensors_of((2, 2), random, 300), {"note": 'a "quoted"\nline'}),
        "scalars": (tensors_of((), random, 2), None),
        "without elements": (tensors_of((0, 4), random, 2), None),
        "metadata": (tensors_of((2, 2), random, 1), {"format": "pt", "epoch": "3", "": "", "ü": "漢"}),
        "names": ({"ü 漢 \"quoted\" \\ \n": np.ones(2, np.float32), "b/": np.zeros(1, np.uint8)}, None),
        "no tensors": ({}, {"format": "pt"}),
        "large": ({"weight": random.random((1000, 1000), np.float32)}, None),
    }
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = Path(folder, "theirs.safetensors"), Path(folder, "ours.safetensors")
        for name, (tensors, metadata) in cases.items():
            save_file(tensors, theirs, metadata)
            ours.unlink(missing_ok=True)
            subprocess.run([copy, theirs, ours], check=True)
            read = dict(safetensors.deserialize(ours.read_bytes()))
            assert read.keys() == tensors.keys(), name
            for key, tensor in tensors.items():
                assert tuple(read[key]["shape"]) == tensor.shape, (name, key)
                assert bytes(read[key]["data"]) == tensor.tobytes(), (name, key)
            with safetensors.safe_open(ours, "np") as file:
                assert (file.metadata() or {}) == (metadata or {}), name
            same = ours.read_bytes() == theirs.read_bytes()
            print(f"{name}: {len(tensors)} tensors are equal, and the files {'are, too' if same else 'differ in layout'}")
            # The reference implementation writes metadata in an order that changes from run to run.
            assert same or name == "metadata", name
    print(f"safetensors {safetensors.__version__} and lockstep read each other's files.")


main()
