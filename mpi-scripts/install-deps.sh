#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that lockstep needs and that are not installed yet. Needs neither root nor network where all
# are; where one is missing and root is not to be had it says which.
#   install-deps.sh [--build-only]    --build-only leaves out what only test.sh needs
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# What it takes to build programs and tests, and to start programs: lockstep-launch and tests are in Python.
build_packages=(build-essential cmake ninja-build pkg-config git
  libopenmpi-dev openmpi-bin libhwloc-dev libboost-program-options-dev libssl-dev libdnnl-dev zlib1g-dev nlohmann-json3-dev
  libturbojpeg0-dev libspng-dev libpugixml-dev libyaml-cpp-dev liblmdb-dev libgtest-dev python3)
# What only test.sh wants: to check, to build faster (ccache, lld), and what tests start (pgrep, ip, tc, Slurm).
test_packages=(libboost-context-dev gfortran clang clang-format clang-tidy shellcheck codespell doxygen doxygen-awesome-css ccache lld procps
  iproute2 slurm-wlm munge)

wanted=("${build_packages[@]}" "${test_packages[@]}")
case ${1:-} in
  --build-only) wanted=("${build_packages[@]}") ;;
  "") ;;
  *) fail "unknown option '$1'; usage: install-deps.sh [--build-only]" ;;
esac

command -v dpkg-query >/dev/null || fail "this is no Debian or Ubuntu; install what corresponds to: ${wanted[*]}"

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
known() { apt-cache show --no-all-versions "$1" >/dev/null 2>&1; }

missing=()
for package in "${wanted[@]}"; do installed "$package" || missing+=("$package"); done
if [ ${#missing[@]} = 0 ]; then
  echo "All Debian packages that lockstep needs are installed."
  exit 0
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || fail "not root and no sudo; have somebody install: ${missing[*]}"
  as_root=(sudo)
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@"; }
install() { apt install -y --no-install-recommends "${missing[@]}"; }

echo "Installing ${missing[*]}"
for package in "${missing[@]}"; do
  known "$package" || { apt update; break; }
done
# Package lists may be there and be older than what the mirror still holds.
install || { apt update && install; } ||
  fail "apt-get could not install ${missing[*]}; without a network, have somebody install them from elsewhere"
