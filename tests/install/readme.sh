#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# README shows, line by line, what examples have between "README: begin" and "README: end", in so many lines at most.
#   readme.sh EXAMPLE LINES [EXAMPLE LINES ...]
set -euo pipefail
cd "$(dirname "$0")/../.."
readme=$(<README.md)
while [ $# -gt 0 ]; do
  shown=$(sed -n '/README: begin/,/README: end/p' "examples/$1.cpp" | sed '1d;$d;s/^  //')
  [ -n "$shown" ] || { echo "error: examples/$1.cpp marks nothing for README" >&2; exit 1; }
  [[ $readme == *$'```cpp\n'"$shown"$'\n```'* ]] || { echo "error: README does not show what examples/$1.cpp has" >&2; exit 1; }
  lines=$(wc -l <<<"$shown")
  [ "$lines" -le "$2" ] || { echo "error: $lines lines of examples/$1.cpp are in README, more than $2" >&2; exit 1; }
  shift 2
done
