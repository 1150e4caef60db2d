# SPDX-License-Identifier: Apache-2.0
"""What PyTorch calls when it is imported, or when it is asked for the back end. It is no part of the package, whose import fails with
other versions of PyTorch than it was built for.
"""
import warnings


def load(*_):
    """The package registers itself when it is imported. If its import has led to PyTorch's, it does so at its end."""
    import lockstep_torch  # noqa: F401


def load_with_torch(*_):
    """`import torch` works with every version of PyTorch, also for programs that never ask for the back end."""
    try:
        load()
    except ImportError as error:
        warnings.warn(str(error), stacklevel=2)
