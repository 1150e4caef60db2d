#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds with sanitizers and runs the tests under them.
#   sanitize.sh [asan] [tsan]    both where none is named
# asan: address and undefined behavior, every test. tsan: the tests with that label, where threads meet: node memory, the
# back end whose ranks are threads, the progress thread, the reducer, the data pipeline, and lanes. (Plans and their
# simulator know no threads, and Open MPI itself is not built for the thread sanitizer.)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

suppressions=$PWD/configs/sanitizers

asan() {
  export LSAN_OPTIONS=suppressions=$suppressions/leaks.supp:print_suppressions=0
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  # Tests ask for more memory than there is.
  local options=detect_leaks=1:allocator_may_return_null=1
  build asan
  # Leaks inside MPI are told from ours by deep stacks, which are slow to take: not where there are no such leaks.
  ASAN_OPTIONS=$options ctest --preset asan -j "$((jobs + 1))" -R '^collectives\.'
  local timed='own_message_test|^train[.](balance|stragglers)_test$'
  echo "left out: own_message_test, train.balance_test and train.stragglers_test, which compare times; here most are the sanitizer's"
  ASAN_OPTIONS=$options:fast_unwind_on_malloc=0 ctest --preset asan -j "$((jobs + 1))" -E "^collectives\.|$timed"
}

tsan() {
  export TSAN_OPTIONS=suppressions=$suppressions/threads.supp:halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1
  build tsan --target tsan_tests
  ctest --preset tsan -j "$jobs" -L tsan
}

build() {
  local preset=$1
  shift
  section "$preset"
  cmake --preset "$preset"
  cmake --build --preset "$preset" -j "$jobs" "$@"
}

[ $# -gt 0 ] || set -- asan tsan
for preset in "$@"; do
  case $preset in
    asan | tsan) "$preset" ;;
    *) fail "unknown sanitizer '$preset'; there are asan and tsan" ;;
  esac
done
