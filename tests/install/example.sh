#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs an example on some ranks, in an empty folder. It must end with exit code 0, print nothing on standard error, and
# print, in any order, the text of the lines "// prints: TEXT" in its source; a line with "rank R:" stands for one line
# of each rank. If the source has no such line, every rank must print what a single rank prints.
#   example.sh RANKS SOURCE PROGRAM LAUNCHER...      LAUNCHER... ends in the flag for the number of ranks
set -euo pipefail
ranks=$1 source=$2 program=$3
shift 3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  echo "error: $*" >&2
  exit 1
}
# run RANKS   leaves the program's output in $output
run() {
  local code=0
  output=$(cd "$folder" && "${launcher[@]}" "$1" "$program" 2>"$folder/errors") || code=$?
  printf '%s\n' "$output"
  cat "$folder/errors" >&2
  [ "$code" = 0 ] || fail "exit code $code on $1 ranks"
  [ ! -s "$folder/errors" ] || fail "something is on standard error on $1 ranks"
}
launcher=("$@")

lines=$(sed -n 's|^// prints: ||p' "$source")
if [ -z "$lines" ]; then
  run 1
  [ -n "$output" ] || fail "one rank prints no result"
  lines=${output//rank 0:/rank R:}
fi
expected=$(while IFS= read -r line; do
  if [[ $line == *"rank R:"* ]]; then
    for ((rank = 0; rank < ranks; ++rank)); do printf '%s\n' "${line/rank R:/rank $rank:}"; done
  else
    printf '%s\n' "$line"
  fi
done <<<"$lines")
run "$ranks"
diff <(sort <<<"$expected") <(sort <<<"$output") || fail "this (>) is not what is expected (<)"
