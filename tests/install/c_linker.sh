#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Links a compiled example with a C compiler, by what pkg-config --static says of an installed lockstep-mpi, and runs it.
#   c_linker.sh PREFIX OBJECT [FLAG...]
set -euo pipefail
prefix=$1 object=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
file=$(find "$prefix" -name lockstep.pc)
read -ra libraries <<<"$(PKG_CONFIG_PATH=$(dirname "$file") pkg-config --static --libs lockstep-mpi)"
cc "$@" "$object" -o "$folder/program" "${libraries[@]}"
LD_LIBRARY_PATH=$(dirname "$(dirname "$file")") "$folder/program"
