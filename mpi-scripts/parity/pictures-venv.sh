#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the Python interpreter that the comparisons with Pillow run on.
#   PYTHON  an interpreter with Pillow and numpy; without it a virtual environment with the newest ones from PyPI is made in
#           build/pictures-venv, once
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

has_packages() { "$1" -c 'import numpy, PIL' 2>/dev/null; }

python=${PYTHON:-build/pictures-venv/bin/python}
if ! has_packages "$python"; then
  [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON cannot import PIL and numpy"
  echo "Making a virtual environment with Pillow in build/pictures-venv" >&2
  python3 -m venv build/pictures-venv >&2 || fail "python3 cannot make virtual environments; install python3-venv"
  "$python" -m pip install --quiet pillow numpy >&2 || fail "pip could not install pillow and numpy"
fi
echo "$python"
