#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds an example in C or Fortran by what pkg-config says of an installed lockstep_c, without --static, and runs it.
#   by_pkg_config.sh PREFIX SOURCE [MPIF90]
set -euo pipefail
prefix=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
file=$(find "$prefix" -name lockstep_c.pc)
PKG_CONFIG_PATH=$(dirname "$file")
export PKG_CONFIG_PATH
read -ra compile <<<"$(pkg-config --cflags lockstep_c)"
read -ra link <<<"$(pkg-config --libs lockstep_c)"
cd "$folder"
if [[ $source == *.c ]]; then
  cc -std=c99 -Wall -Wextra -Werror "${compile[@]}" "$source" -o program "${link[@]}" -lm
else
  modules=$(pkg-config --variable=fortrandir lockstep_c)
  cc -c "$modules/lockstep_fortran.c" "${compile[@]}"
  "$3" "$modules/lockstep.f90" "$modules/lockstep_mpi.f90" "$source" lockstep_fortran.o -o program "${link[@]}"
fi
LD_LIBRARY_PATH=$(dirname "$(dirname "$file")") ./program
