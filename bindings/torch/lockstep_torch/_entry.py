# SPDX-License-Identifier: Apache-2.0
"""What PyTorch calls when it is imported, or when it is asked for the back end."""


def load(*_):
    """The package registers itself when it is imported. If its import has led to PyTorch's, it does so at its end."""
    import lockstep_torch  # noqa: F401
