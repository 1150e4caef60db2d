#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the Python interpreter that the comparisons with PyTorch run on.
#   torch-venv.sh [PACKAGE...]   more packages that it must have, by the names by which PyPI and Python know them
#   PYTHON  an interpreter with torch, numpy and these packages; without it a virtual environment with the newest PyTorch from PyPI
#           is made in build/torch-venv, once (a minute, several GB), and packages that it lacks are installed there
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

can_import() { "$1" -c 'import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]' "${@:2}" 2>/dev/null; }

if [ -n "${PYTHON:-}" ]; then
  can_import "$PYTHON" numpy torch "$@" || fail "PYTHON=$PYTHON cannot import all of: numpy torch $*"
  echo "$PYTHON"
  exit 0
fi

python=build/torch-venv/bin/python
if [ ! -x "$python" ] || ! can_import "$python" numpy torch; then
  echo "Making a virtual environment with PyTorch in build/torch-venv (several GB)" >&2
  python3 -m venv build/torch-venv >&2 || fail "python3 cannot make virtual environments; install python3-venv"
  "$python" -m pip install --quiet torch numpy >&2 || fail "pip could not install torch and numpy"
fi
if ! can_import "$python" "$@"; then
  "$python" -m pip install --quiet "$@" >&2 || fail "pip could not install $*"
fi
echo "$python"
