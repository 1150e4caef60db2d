#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a program that prints "rank R: name = number number, …" alone and on several ranks, and compares: all ranks must print
# the same to the last digit, and what one rank prints up to rounding. A rank alone must have something to print.
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
[ "$(sort -u <<<"$all" | wc -l)" = 1 ] || fail "the $ranks ranks do not print one result"
paste -d ' ' <(head -n 1 <<<"$all" | grep -oE '[-+.e0-9]*[0-9][-+.e0-9]*') <(grep -oE '[-+.e0-9]*[0-9][-+.e0-9]*' <<<"$one") |
  awk '{ d = $1 - $2; if (d < 0) d = -d; s = $2 < 0 ? -$2 : $2; if (NF != 2 || d > 1e-9 * (s + 1)) bad = 1 }
       END { if (bad || NR == 0) { print "error: not what one rank finds" > "/dev/stderr"; exit 1 } }'
