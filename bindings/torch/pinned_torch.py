# SPDX-License-Identifier: Apache-2.0
"""Tells scikit-build-core what a wheel of lockstep_torch depends on."""
import importlib.metadata


def dynamic_metadata(field, *_):
    """The installed PyTorch's minor version: PyTorch promises no binary compatibility between two of them."""
    assert field == "dependencies", field
    return ["torch=={}.{}.*".format(*importlib.metadata.version("torch").split(".")[:2])]
