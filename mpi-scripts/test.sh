#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs packages, builds, and runs the tests that find most for their time.
#   test.sh                the stages deps, format, build-quick and quick
#   test.sh all            these, and then the rest: everything else that has to hold before a change goes in. That
#                          is the stages build, tidy, docs, nocuda and slow
#   test.sh STAGE...       stages by name; also lint (format, tidy), unit (the tests of quick and slow), tidy-full (clang's static
#                          analyzer, for a weekly run) and speed (beside a former commit: a job of its own)
# cmake/SlowTests.cmake says which tests are slow, and why. What a run leaves out is printed at its end. BUILD_JOBS limits the
# compiler processes. Where LOCKSTEP_REQUIRE, a comma-separated list, names the reason of a skipped test, that is an error; the
# reasons are in tests/support/verdict.hpp. Each stage's seconds are shown beside what it may take, and with
# LOCKSTEP_BUDGETS=enforce a stage that takes half as long again fails. CTest's summary comes last.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# 1.2 times the seconds that a quiet machine took with an empty compiler cache, on whose two cores the calibration takes
# calibrated_seconds: CONTRIBUTING.md has them. What deps takes is a mirror's matter.
calibrated_seconds=2.76
declare -A budget=([deps]=60 [format]=9 [build-quick]=440 [quick]=350 [build]=60 [tidy]=128 [tidy-full]=1200 [docs]=5
  [nocuda]=95 [speed]=200 [slow]=590 [unit]=840)
# What a stage finds, for the list of those that a run has left out.
declare -A finds=([tidy]="mistakes that clang-tidy finds" [docs]="dead links, functions without a description, plots that differ"
  [nocuda]="what works only with assertions, CUDA or MPI" [slow]="faults in whole runs, under Slurm, and on more numbers of ranks"
  [tidy-full]="mistakes that clang's static analyzer finds" [speed]="what has become slower than at a former commit")
over=1.5

deps() { mpi-scripts/install-deps.sh; }

format() {
  section "clang-format, shellcheck, spelling, license"
  local formatter
  formatter=$(pinned clang-format)
  files '*.hpp' '*.cpp' '*.cu' '*.cuh' | xargs -0 -n 100 -P "$jobs" "$formatter" --dry-run -Werror
  files '*.sh' '*.sbatch' .ci/run | xargs -0 -n 10 -P "$jobs" shellcheck
  # American English. The pattern takes identifiers apart into their words.
  files '*.hpp' '*.cpp' '*.cu' '*.cuh' '*.h' '*.md' '*.sh' '*.sbatch' '*.py' '*.cmake' '*.in' '*CMakeLists.txt' .ci/run |
    xargs -0 codespell --builtin en-GB_to_en-US --regex '[A-Za-z][a-z]+' ||
    fail "British spellings: write them as the lines above say"
  local unlicensed
  unlicensed=$(files '*.hpp' '*.cpp' '*.cu' '*.cuh' '*.in' '*.cmake' '*.sh' '*.sbatch' '*.py' '*CMakeLists.txt' .ci/run |
    xargs -0 grep -L 'SPDX-License-Identifier: Apache-2.0' || [ $? = 123 ])
  [ -z "$unlicensed" ] || fail "no line 'SPDX-License-Identifier: Apache-2.0' in: $unlicensed"
}

requires() { [[ ,${LOCKSTEP_REQUIRE:-}, == *,$1,* ]]; }

# With CUDA where its toolkit is, since LOCKSTEP_CUDA is AUTO: then all that needs it is compiled and linked, and run where
# there is a GPU.
no_cuda='' # the reason, once build has been run
build() {
  section "Build, warnings are errors (preset ci${1:+, $1})"
  cmake --preset ci
  no_cuda=$(sed -n 's/^LOCKSTEP_CUDA_MISSING:INTERNAL=//p' build/ci/CMakeCache.txt)
  if [ -n "$no_cuda" ]; then
    echo "Without CUDA: $no_cuda"
    ! requires cuda || fail "LOCKSTEP_REQUIRE names cuda, but $no_cuda"
  fi
  cmake --build --preset ci -j "$jobs" --target "${1:-all}"
}
build-quick() { build quick_tests; }

# These read the commands that would compile each file by itself, which there are once CMake has been run.
tidy() {
  section "clang-tidy"
  cmake --preset dev >/dev/null
  mpi-scripts/check/tidy.py
}
tidy-full() {
  section "clang-tidy and clang's static analyzer"
  cmake --preset dev >/dev/null
  mpi-scripts/check/tidy.py --full
}

# A public function says what it does, but for accessors, which are const and take nothing, and for moving.
docs() {
  section "Documentation (plots as measured; links; doxygen, warnings are errors)"
  mpi-scripts/bench/plots.py --check
  mkdir -p build/doc/scale
  python3 mpi-scripts/bench/simulate_report.py docs/scale/results.csv build/doc/scale >build/doc/scale.md
  if ! diff -r docs/scale build/doc/scale || grep -vxFf docs/scale.md build/doc/scale.md; then
    fail "docs/scale.md and docs/scale are not what mpi-scripts/bench/simulate_report.py makes of docs/scale/results.csv"
  fi
  mpi-scripts/bench/scaling.py tables >build/doc/scaling.md
  if grep -vxFf docs/scale.md build/doc/scaling.md; then
    fail "the lines above are missing in docs/scale.md: mpi-scripts/bench/scaling.py tables makes them of docs/measurements/scaling.csv"
  fi
  files '*.md' | xargs -0 mpi-scripts/check/links.py
  # From 1.9.5 on, Doxygen has colors of its own for dark pages, which doxygen-awesome-css replaces.
  { cat Doxyfile; if doxygen -g - | grep -q HTML_COLORSTYLE; then echo HTML_COLORSTYLE=LIGHT; fi; } | doxygen -
  mpi-scripts/check/links.py --site build/doc/html
  local silent
  silent=$({
    cat Doxyfile
    printf '%s\n' INPUT=include OUTPUT_DIRECTORY=build/doc/check GENERATE_HTML=NO GENERATE_XML=YES \
      EXTRACT_ALL=NO WARN_IF_UNDOCUMENTED=YES WARN_AS_ERROR=NO
  } | doxygen - 2>&1 | grep -E '(Compound|Member .* \((function|enumeration)\)) .* is not documented' |
    grep -vE '\(\) const|\([A-Za-z]+ ?&&[a-z ]*\) noexcept' | sort -u || [ $? = 1 ])
  [ -z "$silent" ] || fail "public functions and types without a word on what they are for:"$'\n'"$silent"
  echo "build/doc/html/index.html"
}

# What users get: no assertions, no CUDA. Not optimized and by clang, because neither depends on that. comm-check runs random
# operations and checks each result.
nocuda() {
  section "Build without CUDA and assertions, and a run of each program; the library without MPI (preset ndebug)"
  # Where a folder was configured for another compiler, CMake drops the preset's other variables.
  grep -qs '^CMAKE_CXX_COMPILER:.*clang' build/ndebug/CMakeCache.txt || rm -rf build/ndebug
  cmake --preset ndebug -DLOCKSTEP_MPI=ON -DLOCKSTEP_INSTALL=OFF
  cmake --build --preset ndebug -j "$jobs" --target train topo comm-bench comm-check {base,kernels}_tests
  ctest --preset ndebug -j "$((2 * jobs))" -R '^(base|kernels)\.'
  local ranks=(mpirun --oversubscribe --bind-to none -np 3) programs=build/ndebug/bin
  OMP_NUM_THREADS=1 "${ranks[@]}" "$programs/comm-check" --scenarios 60
  OMP_NUM_THREADS=1 "${ranks[@]}" "$programs/train" --steps 20 --batch 48 --save-dir none
  "${ranks[@]}" "$programs/topo"
  "${ranks[@]}" "$programs/comm-bench" --max 64K --seconds 0.01 --check
  # What needs no MPI was built with the same flags, and is not built again.
  local prefix=$PWD/build/ndebug/without-mpi examples=$PWD/build/ndebug/examples-without-mpi
  rm -rf "$prefix" "$examples"
  cmake --preset ndebug -DLOCKSTEP_MPI=OFF -DLOCKSTEP_INSTALL=ON
  cmake --build --preset ndebug -j "$jobs"
  cmake --install build/ndebug --prefix "$prefix" >/dev/null
  cmake -S examples -B "$examples" -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON
  cmake --build "$examples" --target from_environment
  if ldd "$examples/from_environment" | grep 'libmpi\.so'; then fail "from_environment needs that"; fi
  tests/install/without_mpi.sh 3 "$examples/from_environment" | grep -F "rank 2: y = 3.000x - 1.000"
}

# What the preset nocuda builds is compared with a fixed commit. Where that commit is missing, LOCKSTEP_REQUIRE calls it baseline.
speed() {
  local code=0
  mpi-scripts/bench/speed-guard.sh || code=$?
  [ "$code" != 77 ] || ! requires baseline || fail "LOCKSTEP_REQUIRE names baseline, but the speed was not compared"
  [ "$code" = 0 ] || [ "$code" = 77 ]
}

# CTest's summary, from the line with the percentage on, is kept for the end.
summary=$(mktemp)
trap 'rm -f "$summary"' EXIT
run_tests() {
  section "$1 (preset ci)"
  ctest --preset ci -j "$((2 * jobs + 1))" "${@:2}" | awk -v summary="$summary" -v title="$1" '
    /^[0-9]+% tests passed/ { last = 1; print "\n" title >> summary } last { print >> summary; next } { print; fflush() }'
}
quick() { run_tests "Tests without the label slow" -LE '^slow$'; }
slow() { run_tests "Tests with the label slow" -L '^slow$'; }
unit() { run_tests "All tests"; }

# How long this machine takes for a fixed small file, one on each core that is used: the median of three.
calibrate() {
  local round job seconds=()
  for round in 1 2 3; do
    local begin=$EPOCHREALTIME
    for ((job = 0; job < jobs; ++job)); do c++ -std=c++20 -O1 -c mpi-scripts/check/calibration.cpp -o /dev/null & done
    wait
    seconds[round]=$(awk "BEGIN { print $EPOCHREALTIME - $begin }")
  done
  printf '%s\n' "${seconds[@]}" | sort -g | sed -n 2p
}

# What was run, in order, and each one's seconds.
declare -a names=() taken=()
timed() {
  local begin=$EPOCHREALTIME
  "$1"
  names+=("$1")
  taken+=("$(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $begin }")")
}

# Shows the stages; false where one took too long. A budget is for two cores: with more, less is allowed.
report() {
  local scale=1 too_long=0 i
  if [ "${LOCKSTEP_BUDGETS:-}" = enforce ]; then
    scale=$(awk "BEGIN { printf \"%.2f\", $(calibrate) / $calibrated_seconds * 2 / $jobs }")
  fi
  section "Seconds by stage, and budgets: $scale times those of the reference"
  printf '%-10s %8s %8s\n' stage seconds budget
  for i in "${!names[@]}"; do
    awk -v name="${names[i]}" -v taken="${taken[i]}" -v scale="$scale" -v base="${budget[${names[i]}]}" -v over="$over" '
      BEGIN {
        budget = scale * base; long = taken > over * budget
        printf "%-10s %8.1f %8.1f%s\n", name, taken, budget, long ? "  over " over " times its budget" : ""
        exit long
      }' || too_long=1
  done
  printf '%-10s %8.1f\n' all "$(printf '%s\n' "${taken[@]}" | awk '{ s += $1 } END { print s }')"
  [ "$too_long" = 0 ] || [ "${LOCKSTEP_BUDGETS:-}" != enforce ]
}

# Says what a run of tests has left out, and how to run it.
left_out() {
  local stage done=" ${names[*]} "
  [[ $done == *" quick "* || $done == *" unit "* ]] || return 0
  [[ $done != *" unit "* ]] || done+=" slow "
  section "Left out"
  for stage in tidy docs nocuda slow speed tidy-full; do
    [[ $done == *" $stage "* ]] || printf '  mpi-scripts/test.sh %-10s %s\n' "$stage" "${finds[$stage]}"
  done
  [[ $done == *" slow "* ]] || echo "  mpi-scripts/test.sh rest       what continuous integration runs of these, in about twelve minutes"
  [ -z "$no_cuda" ] || echo "  tests on emulated GPUs, which need the CUDA toolkit and NCCL's header: $no_cuda"
  echo "  CONTRIBUTING.md lists longer checks: faults and kills by the hour, sanitizers, other compilers and MPI libraries, GPUs."
}

# Files that git does not know, outside build/.
untracked() { [ ! -e .git ] || git ls-files --others | grep -v '^build/' || true; }

run=()
[ $# -gt 0 ] || set -- usual
for stage in "$@"; do
  case $stage in
    usual) run+=(deps format build-quick quick) ;;
    all) run+=(deps format build-quick quick build tidy docs nocuda slow) ;;
    rest) run+=(build tidy docs nocuda slow) ;;
    lint) run+=(format tidy) ;;
    *)
      [ -n "${budget[$stage]:-}" ] || fail "unknown stage '$stage'; the stages are usual rest all lint ${!budget[*]}"
      run+=("$stage")
      ;;
  esac
done
echo "Not to be skipped: ${LOCKSTEP_REQUIRE:-(nothing: LOCKSTEP_REQUIRE is not set)}"
# No && and no if around a stage: in such a list the shell would not stop at a stage's own failures.
trap 'cat "$summary"; rm -f "$summary"' EXIT
before=$(untracked)
for stage in "${run[@]}"; do timed "$stage"; done
written=$(LC_ALL=C comm -13 <(echo "$before") <(untracked))
[ -z "$written" ] || fail "scripts and tests write into build/ and temporary folders only, but now there is"$'\n'"$written"
left_out
report || fail "a stage took too long"
