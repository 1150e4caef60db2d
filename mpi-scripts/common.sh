# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the other scripts: the repository's root as working directory, and what they all need to know. With --help as first
# argument a script prints its leading comment and ends.
set -euo pipefail
if [ "${1:-}" = --help ]; then
  sed -n '3,${ /^#/!q; s/^# \{0,1\}//p; }' "$0"
  exit
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# nproc heeds OpenMP's variables, which batch jobs set to 1 for programs, not for compilers.
# shellcheck disable=SC2034  # for those who source this file
jobs=${BUILD_JOBS:-$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)}

export PYTHONDONTWRITEBYTECODE=1 # scripts write nothing into the checkout but build/

section() { printf '\n==> %s\n' "$*"; }

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# files PATTERN...   the repository's files with such names, each ended by a zero byte; those of a tarball too, which has no .git
files() {
  if [ -e .git ]; then
    git ls-files -z -- "$@"
    return
  fi
  local pattern names=()
  for pattern; do names+=(-o -path "./$pattern"); done
  find . \( -path ./build -o -path ./runs \) -prune -o -type f \( "${names[@]:1}" \) -print0
}

# cifar10_jpegs   prints a folder with CIFAR-10 as JPEGs, train/CLASS and test/CLASS, unpacked once from LOCKSTEP_DATA
cifar10_jpegs() {
  local archive=${LOCKSTEP_DATA:-../shared/data}/cifar10-jpeg.tar.gz folder=build/cifar10-jpeg
  if [ ! -d "$folder" ]; then
    [ -f "$archive" ] || fail "$archive does not exist; LOCKSTEP_DATA can name the folder that has it"
    rm -rf "$folder.part"
    mkdir -p "$folder.part"
    tar -xzf "$archive" -C "$folder.part" && mv "$folder.part" "$folder"
  fi
  echo "$folder"
}

# newer_onednn_helps CPUINFO VERSION   whether a processor has AMX, for which oneDNN 3 has newer kernels, and oneDNN is older
newer_onednn_helps() { grep -qw amx_bf16 "$1" && [ "${2%%.*}" -lt 3 ]; }

# pinned TOOL   the name of clang-format or clang-tidy in the version that decides here
readonly clang_version=14
pinned() {
  local tool
  for tool in "$1-$clang_version" "$1"; do
    if command -v "$tool" >/dev/null && grep -q "version $clang_version\." <<<"$("$tool" --version)"; then
      echo "$tool"
      return
    fi
  done
  fail "$1 $clang_version is needed, since other versions decide otherwise; here is $("$1" --version 2>/dev/null |
    grep -o 'version [0-9.]*' || echo none). Debian 12 has it as $1, other releases as $1-$clang_version"
}

# mpirun refuses to run as root unless told twice; that of Open MPI 5 reads these names too, and its prterun the others.
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# CMake reads this variable when a build folder is configured for the first time.
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}; fi
