#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Feeds the parsers of files with inputs that libFuzzer makes up, under the address and undefined-behavior sanitizers, and
# stops at the first that crashes one, makes it throw something undocumented, or makes it hold much more memory than the
# input has.
#   fuzz.sh [--full] [TARGET...]   a minute each, or with --full ten million inputs each, and one million of those that decode
#                                  pictures or unpack files of pixels; all targets unless some are named
# Ten million take 10 to 20 minutes on one core, and one to two hours for configuration, whose inputs take half a millisecond.
# Targets are rows of tests/fuzz/CMakeLists.txt, and their seeds are in tests/fuzz/seeds. Inputs that reach new code are kept
# in build/fuzz/corpus, from which the next run goes on; an input that fails is left in build/fuzz/failures.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

full=
if [ "${1:-}" = --full ]; then
  full=yes
  shift
fi
mapfile -t known < <(sed -n 's/^lockstep_fuzz_target(\([a-z0-9_]*\) .*/\1/p' tests/fuzz/CMakeLists.txt)
[ $# -gt 0 ] || set -- "${known[@]}"
for target; do
  [[ " ${known[*]} " == *" $target "* ]] || fail "there is no target '$target'; there are ${known[*]}"
done

command -v clang++ >/dev/null || fail "clang++ is needed: install clang (Debian: clang and libclang-rt-$clang_version-dev)"
has_fuzzer() { echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }' |
  clang++ -x c++ -fsanitize=fuzzer - -o /dev/null 2>/dev/null; }
if ! has_fuzzer; then
  major=$(clang++ -dumpversion | cut -d. -f1)
  echo "Installing libclang-rt-$major-dev, which has libFuzzer"
  [ "$(id -u)" = 0 ] && { apt-get install -y -q "libclang-rt-$major-dev" ||
    { apt-get update -q && apt-get install -y -q "libclang-rt-$major-dev"; }; }
  has_fuzzer || fail "clang++ finds no libFuzzer; install libclang-rt-$major-dev"
fi

section "Build (preset fuzz)"
cmake --preset fuzz
cmake --build --preset fuzz -j "$jobs" --target "${@/#/fuzz_}"

# Open MPI's library, which some targets are linked with, keeps memory to the end. What parsers leak is found with asan.
# Stacks of allocations take a tenth of the time; run the target with a failing input alone to see them.
export ASAN_OPTIONS=detect_leaks=0:malloc_context_size=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TMPDIR=${TMPDIR:-/dev/shm} # where readers that take paths get their inputs: a disk would take most of the time
# The entropic schedule of inputs takes half of the time of such short ones, so it is off.
for target; do
  section "$target"
  limit=(-max_total_time=60 -use_value_profile=1)
  if [ -n "$full" ]; then
    # Profiling compared values would halve the rate. The corpus of the quick form has what it finds.
    case $target in decode_* | idx | cifar10) limit=(-runs=1000000) ;; *) limit=(-runs=10000000) ;; esac
  fi
  corpus=build/fuzz/corpus/$target
  mkdir -p "$corpus" build/fuzz/failures
  log=build/fuzz/$target.log
  "build/fuzz/tests/fuzz_$target" "${limit[@]}" -print_final_stats=1 -timeout=10 -entropic=0 \
    -artifact_prefix="build/fuzz/failures/$target-" "$corpus" "tests/fuzz/seeds/$target" 2>"$log" ||
    { tail -n 60 "$log" && fail "$target: the input is in build/fuzz/failures. Add it to tests/fuzz/seeds/$target once it is mended"; }
  grep -E '^stat::(number_of_executed_units|average_exec_per_sec|peak_rss_mb)' "$log"
done
