#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whether all-reduce on two ranks and training steps have become slower than they were at a fixed commit. Builds comm-bench and
# train of that commit and of the working tree with the same optimization, and runs them in turn, so that what else the machine
# does meets both. Prints the medians of all rounds and their ratios. What is slow by a bound that chance hardly reaches is
# measured again in further rounds before it counts: exit code 1. Exit code 77 where the commit cannot be had.
#   BASELINE       the commit (the one below)
#   NOW, BEFORE    folders of programs instead of build/nocuda/bin and the baseline's, for instance the same folder twice
#   ROUNDS         rounds before the first look (3)
#   SECOND_LOOKS   how often as many further rounds follow where a ratio is too low (3)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

# Raise it when something was made faster, so that the gain is guarded, too, or slower for a good reason.
baseline=${BASELINE:-2029520}
out=build/speed-guard
now=${NOW:-build/nocuda/bin}

# A shallow clone may lack the commit, and a tarball has no history at all.
commit_of() { git rev-parse --verify --quiet "$1^{commit}"; }
baseline_commit() {
  [ -e .git ] || return 1
  commit_of "$baseline" || { timeout 60 git fetch --quiet --unshallow origin 2>/dev/null && commit_of "$baseline"; }
}

# Tests of the baseline are not built, and its warnings do not matter.
build_baseline() {
  local commit
  commit=$(baseline_commit) || {
    echo "skipped: commit $baseline, the baseline, is not in this repository and cannot be fetched; a full clone has it"
    exit 77
  }
  before=$out/$commit/build/quickstart/bin
  section "Building comm-bench and train of the baseline, ${commit:0:12} (preset quickstart)"
  if [ ! -e "$out/$commit/complete" ]; then
    rm -rf "$out"
    mkdir -p "$out/$commit"
    git archive "$commit" | tar -x -C "$out/$commit"
    touch "$out/$commit/complete"
  fi
  (cd "$out/$commit" && cmake --preset quickstart >/dev/null && cmake --build --preset quickstart -j "$jobs" --target train comm-bench)
}

before=${BEFORE:-}
[ -n "$before" ] || build_baseline
if [ -z "${NOW:-}" ]; then
  section "Building those of the working tree (preset nocuda)"
  cmake --preset nocuda >/dev/null
  cmake --build --preset nocuda -j "$jobs" --target train comm-bench
fi
section "Speed now, $now, beside that of $before"
mkdir -p "$out"
mpi-scripts/bench/speed_guard.py "$before" "$now" "$out" "${ROUNDS:-3}" "${SECOND_LOOKS:-3}" || {
  [ $? = 3 ] || fail "the speed could not be compared, see above"
  fail "slower than commit $baseline, see above. If that is meant, make a later commit the baseline in mpi-scripts/bench/speed-guard.sh"
}
