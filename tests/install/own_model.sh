#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a program that adds the model "tiny" to train: it must train it, and say by its own name what is wrong.
#   own_model.sh RANKS PROGRAM LAUNCHER...      LAUNCHER... ends in the flag for the number of ranks
set -euo pipefail
ranks=$1 program=$2
shift 2
fail() {
  echo "error: $*" >&2
  exit 1
}
# run CODE OPTION...   runs it on the ranks, shows its output and keeps that in $output
run() {
  local wanted=$1 code=0
  shift
  output=$("${launcher[@]}" "$ranks" "$program" "$@" 2>&1) || code=$?
  printf '%s\n' "$output"
  [ "$code" = "$wanted" ] || fail "it ended with $code, not $wanted"
}
has() { grep -qF -- "$1" <<<"$output" || fail "it does not say '$1'"; }
launcher=("$@")

run 0 --model tiny --steps 4 --batch 16 --lr 0.05 --threads 1
has "tiny on synthetic-digits"
has "4 steps in "
run 2 --model tine
has "${program##*/}: --model tine: there is no such choice; did you mean 'tiny'?"
has "|tiny"
