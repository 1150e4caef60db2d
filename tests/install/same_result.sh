#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a program that prints "rank R: name = number number, …" alone and on several ranks: all ranks must print the same as a
# rank alone, to the last digit, and that must be something.
#   same_result.sh RANKS PROGRAM LAUNCHER...      LAUNCHER... ends in the flag for the number of ranks
set -euo pipefail
ranks=$1 program=$2
shift 2
results() { "${@:2}" "$1" "$program" | sed -n 's/^rank [0-9]*: //p'; }
one=$(results 1 "$@")
all=$(results "$ranks" "$@")
printf '1 rank:   %s\n%s\n' "$one" "$all"
fail() {
  echo "error: $*" >&2
  exit 1
}
[ -n "$one" ] || fail "one rank printed no result"
[ "$(wc -l <<<"$all")" = "$ranks" ] || fail "not every one of the $ranks ranks printed a result"
[ "$(sort -u <<<"$all")" = "$one" ] || fail "the $ranks ranks do not all print what one rank does"
