#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries many schedules of many scenarios, all ranks of a cluster in one thread: see tests/schedules.
#   schedules.sh [COUNT [FIRST]]    COUNT schedules (a million) from number FIRST (0) on; a failure is printed in its shortest form
# PRESET names the build, release unless set.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release}
count=${1:-1000000}
first=${2:-0}
if [ ! -f "build/$preset/CMakeCache.txt" ]; then cmake --preset "$preset"; fi
cmake --build --preset "$preset" -j "$jobs" --target schedules_schedules_test

section "$count schedules from number $first on, $jobs processes"
share=$(((count + jobs - 1) / jobs))
pids=()
for ((i = 0; i < jobs; ++i)); do
  LOCKSTEP_SCHEDULES=$share LOCKSTEP_FIRST_SCHEDULE=$((first + i * share)) \
    "build/$preset/tests/schedules_schedules_test" --gtest_filter='Schedules.Leave*' --gtest_brief=1 &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || fail "a schedule went wrong, see above"; done
echo "Every element of every result of $((jobs * share)) schedules was right."
