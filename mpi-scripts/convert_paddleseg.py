#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns weights of PaddleSeg's PP-LiteSeg-T (STDC1) into a file for `train --weights`.

  convert_paddleseg.py MODEL.pdparams FILE.safetensors

MODEL.pdparams is what paddle.save has written of the network's state_dict(), as PaddleSeg publishes it. Names keep their spelling,
except that the running statistics of batch norms are called as PyTorch's, and that what PaddleSeg's file has twice or does not
compute with is left out. A file of the backbone STDC1 gives the backbone only: load it by `train --partial-weights`. Only arrays
are read, nothing in the file is executed. It needs the packages numpy and safetensors.
"""
import pickle
import re
import sys

try:
    import numpy as np
    from safetensors.numpy import save_file
except ImportError as error:
    sys.exit(f"convert_paddleseg.py needs the packages numpy and safetensors: pip install numpy safetensors ({error})")

# What arrays are pickled by; the names of numpy's modules differ from version to version.
ALLOWED = {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"), ("collections", "OrderedDict")}
MULTIARRAY = re.compile(r"numpy\.(core|_core)\.(multiarray|numeric)")
# The stages name layers of "features" again, and the last convolution belongs to the classifier.
UNUSED = re.compile(r"backbone\.(x\d+|conv_last|gap|fc|bn|linear)\.")


def fail(text):
    sys.exit(f"convert_paddleseg.py: {text}")


class ArrayUnpickler(pickle.Unpickler):
    """Reads arrays and refuses everything else."""

    def find_class(self, module, name):
        if (module, name) in ALLOWED or (MULTIARRAY.fullmatch(module) and name in ("_reconstruct", "_frombuffer", "scalar")):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it has a {module}.{name}")


def read(path):
    """The arrays of a file by their names."""
    try:
        with open(path, "rb") as file:
            content = ArrayUnpickler(file).load()
    except OSError as problem:
        fail(f"cannot read '{path}': {problem.strerror or problem}")
    except Exception as problem:  # pylint: disable=broad-exception-caught  # unpickling raises many types
        fail(f"'{path}' does not consist of arrays ({type(problem).__name__}: {problem})")
    arrays = {}
    for name, value in content.items() if isinstance(content, dict) else ():
        value = value[1] if isinstance(value, tuple) and len(value) == 2 else value  # (Paddle's own name, array)
        if isinstance(value, np.ndarray):
            arrays[name] = value
    return arrays


def converted(arrays):
    """The tensors of lockstep's model."""
    if any(name.startswith("features.") for name in arrays):
        arrays = {f"backbone.{name}": array for name, array in arrays.items()}
    tensors = {}
    for name, array in arrays.items():
        if UNUSED.match(name):
            continue
        if name.endswith("._scale"):  # the 1 of 1 - a in the fusion, which is not trained
            if not np.all(array == 1):
                fail(f"'{name}' is not 1, so the fusion is another one than lockstep's")
            continue
        name = re.sub(r"\._mean$", ".running_mean", re.sub(r"\._variance$", ".running_var", name))
        tensors[name] = np.ascontiguousarray(array)
    return tensors


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in (["--help"], ["-h"]) else 2)
    source, target = sys.argv[1:]
    tensors = converted(read(source))
    if "backbone.features.0.conv.weight" not in tensors:
        fail(f"'{source}' has no tensor 'backbone.features.0.conv.weight', so it is not PP-LiteSeg with STDC1")
    if "backbone.features.8.conv_list.0.conv.weight" in tensors:
        fail(f"'{source}' has more than two blocks at a stride: it is PP-LiteSeg with STDC2, which lockstep lacks")
    try:
        save_file(tensors, target, metadata={"format": "pt"})
    except OSError as problem:
        fail(f"cannot write '{target}': {problem}")
    parts = "the backbone of pp-liteseg" if not any(name.startswith("seg_heads.") for name in tensors) else "pp-liteseg"
    print(f"{target}: {parts}, {len(tensors)} tensors")


if __name__ == "__main__":
    main()
