#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes a program's man page from what it says on --help; the build calls it.
#   man-page.sh PROGRAM VERSION OUTPUT
set -euo pipefail

[ $# = 3 ] || {
  echo "usage: man-page.sh PROGRAM VERSION OUTPUT" >&2
  exit 2
}
name=$(basename "$1")
help=$("$1" --help)
mkdir -p "$(dirname "$3")"
# Lines "  --option [VALUE]   text", which go on on lines that are indented further, become paragraphs with a hanging tag.
awk -v name="$name" -v version="$2" '
  function quoted(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); return text }
  function say(text) { if (text ~ /^[.'"'"']/) text = "\\&" text; print text }
  function section(title) { if (title != at) { print ".SH " title; at = title } }
  { sub(/[ \t]+$/, "") }
  NR == 1 {
    printf ".TH %s 1 \"\" \"lockstep %s\" \"User commands\"\n", toupper(name), version
    synopsis = "[mpirun -np RANKS] " name " [options]"
    if (sub(/^Usage: /, "")) { synopsis = $0; getline }
    brief = tolower(substr($0, 1, 1)) substr($0, 2)
    sub(/[.:].*/, "", brief)
    section("NAME"); say(quoted(name " - " brief))
    section("SYNOPSIS"); say(quoted(synopsis))
    section("DESCRIPTION")
    sub(/: mpirun.*/, ".")
    say(quoted($0)); next
  }
  /^ +--/ {
    section("OPTIONS")
    sub(/^ +/, ""); text = ""
    if (match($0, /  +/)) { text = substr($0, RSTART + RLENGTH); $0 = substr($0, 1, RSTART - 1) }
    print ".TP"; say("\\fB" quoted($0) "\\fR")
    if (text != "") say(quoted(text))
    next
  }
  /^Options:$/ { next }
  /^$/ { if (at == "OPTIONS") after = 1; else if (at == "DESCRIPTION") print ".PP"; next }
  /^Exit codes: / { section("EXIT STATUS"); sub(/^Exit codes: /, ""); say(quoted($0)); next }
  /^[^ ]/ { if (at == "OPTIONS") section("NOTES") }
  { sub(/^ +/, ""); say(quoted($0)) }
' <<<"$help" >"$3"
