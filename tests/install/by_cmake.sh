#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds an example in C or Fortran by CMake, in a project without C++, and runs it.
#   by_cmake.sh PREFIX SOURCE
set -euo pipefail
prefix=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
languages=C sources=$source
if [[ $source == *.f90 ]]; then
  # shellcheck disable=SC2016  # CMake's variable
  languages="C Fortran" sources+=' ${lockstep_fortran_sources}'
fi
cat >"$folder/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(mine LANGUAGES $languages)
find_package(lockstep REQUIRED)
add_executable(program $sources)
target_link_libraries(program PRIVATE lockstep::c m)
END
cmake -S "$folder" -B "$folder/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix"
cmake --build "$folder/build"
"$folder/build/program"
