#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a program that adds a model, a data set and an operator to train. It must learn, and name itself in its errors.
#   own_model.sh RANKS PROGRAM LAUNCHER...      LAUNCHER... ends in the flag for the number of ranks
set -euo pipefail
ranks=$1 program=$2
shift 2
fail() {
  echo "error: $*" >&2
  exit 1
}
# run CODE OPTION...   runs the program on the ranks, shows its output and keeps it in $output. Standard error must be
# empty if the program succeeds.
run() {
  local wanted=$1 code=0 errors
  shift
  errors=$(mktemp)
  output=$("${launcher[@]}" "$ranks" "$program" "$@" 2>"$errors") || code=$?
  [ "$wanted" != 0 ] || [ ! -s "$errors" ] || fail "something is on standard error: $(cat "$errors")"
  output+=$'\n'$(cat "$errors")
  rm "$errors"
  printf '%s\n' "$output"
  [ "$code" = "$wanted" ] || fail "it ended with $code, not $wanted"
}
has() { grep -qF -- "$1" <<<"$output" || fail "it does not say '$1'"; }
launcher=("$@")

run 0 --epochs 4 --threads 1
has "energy on waves (1200 training and 300 test samples, 3 classes)"
has "80 steps in "
has "test accuracy 100.00 %"
[ "$ranks" = 2 ] || exit 0  # the rest does not depend on the number of ranks
run 0 --steps 2 --explain-step --threads 1
has "square"
run 2 --model lenet --steps 1
has "--model lenet cannot be trained on --dataset waves; use --model energy"
run 2 --model energi
has "${program##*/}: --model energi: there is no such choice; did you mean 'energy'?"
has "|energy"
