#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the example in C by what pkg-config says of an installed lockstep_c, without --static, and runs it.
#   c_by_pkg_config.sh PREFIX SOURCE
set -euo pipefail
prefix=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
file=$(find "$prefix" -name lockstep_c.pc)
read -ra flags <<<"$(PKG_CONFIG_PATH=$(dirname "$file") pkg-config --cflags --libs lockstep_c)"
cc -std=c99 -Wall -Wextra -Werror "$source" -o "$folder/program" "${flags[@]}" -lm
LD_LIBRARY_PATH=$(dirname "$(dirname "$file")") "$folder/program"
