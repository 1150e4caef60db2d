#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares lockstep's files of tensors with those of the format's reference implementation, the Python package safetensors:
# each reads what the other has written, and of the same tensors both make the same bytes.
#   PYTHON  an interpreter with safetensors, numpy and ml_dtypes; without it a virtual environment with the newest ones from
#           PyPI is made in build/safetensors-venv, once
#   PRESET  the build to use (dev)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

has_packages() { "$1" -c 'import ml_dtypes, numpy, safetensors' 2>/dev/null; }

preset=${PRESET:-dev}
python=${PYTHON:-build/safetensors-venv/bin/python}
if ! has_packages "$python"; then
  [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON cannot import safetensors, numpy and ml_dtypes"
  echo "Making a virtual environment with safetensors in build/safetensors-venv"
  python3 -m venv build/safetensors-venv || fail "python3 cannot make virtual environments; install python3-venv"
  "$python" -m pip install --quiet safetensors numpy ml_dtypes || fail "pip could not install safetensors"
fi

[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build --preset "$preset" -j "$jobs" --target state_copy
"$python" mpi-scripts/parity/safetensors_files.py "build/$preset/tests/state_copy"
