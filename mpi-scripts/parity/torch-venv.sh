#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the Python interpreter that the comparisons with PyTorch run on.
#   PYTHON  an interpreter with torch and numpy; without it a virtual environment with the newest PyTorch from PyPI is
#           made in build/torch-venv, once (a minute, several GB)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

has_torch() { "$1" -c 'import numpy, torch' 2>/dev/null; }

if [ -n "${PYTHON:-}" ]; then
  has_torch "$PYTHON" || fail "PYTHON=$PYTHON cannot import torch and numpy"
  echo "$PYTHON"
  exit 0
fi

python=build/torch-venv/bin/python
if [ ! -x "$python" ] || ! has_torch "$python"; then
  echo "Making a virtual environment with PyTorch in build/torch-venv (several GB)" >&2
  python3 -m venv build/torch-venv >&2 || fail "python3 cannot make virtual environments; install python3-venv"
  "$python" -m pip install --quiet torch numpy >&2 || fail "pip could not install torch and numpy"
fi
echo "$python"
