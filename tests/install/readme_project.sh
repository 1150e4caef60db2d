#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the program in README with the lines of CMake in README.
#   readme_project.sh FOLDER CMAKE_OPTION...
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
folder=$1
shift
rm -rf "$folder"
mkdir -p "$folder"
# shellcheck disable=SC2016  # the backticks are README's
lines=$(sed -n '/^```cmake$/,/^```$/{/^```/d;p}' "$repository/README.md")
[[ $lines == *"find_package(lockstep"* ]] || { echo "error: README shows no find_package(lockstep …)" >&2; exit 1; }
cat >"$folder/CMakeLists.txt" <<LISTS
cmake_minimum_required(VERSION 3.22)
project(my_trainer LANGUAGES CXX)
add_executable(my_trainer $repository/examples/ddp_any_loop.cpp)
$lines
LISTS
cmake -S "$folder" -B "$folder/build" "$@"
cmake --build "$folder/build"
"$folder/build/my_trainer"
