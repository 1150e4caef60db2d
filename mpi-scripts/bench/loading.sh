#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures what reading pictures costs: the epochs of resnet20 on CIFAR-10's JPEGs beside those on a binary file of the same pixels, in
# turn, and two ranks beside two independent runs at the same time. Prints ratios of times and of processor time; exit code 1 where a
# bound is missed: a first epoch of at most 1.10 and later ones of at most 1.03 times the binary file's; two ranks with at least 0.97 of
# the images per second.
#   loading.sh [pairs] [ranks]   one of both parts; all where none is named
#   PAIRS         how often each is measured (7)
#   FRACTION      of CIFAR-10's pictures (1); with 0.1 a pair takes a minute
#   EPOCHS        of each run (3)
#   MODEL         (resnet20); with lenet, whose steps take a seventh of the time, loading matters more
#   OPTIONS       further options of train in all runs, as "--cache none"
#   PRESET        the build to use (release)
#   LOCKSTEP_DATA the folder with cifar10-jpeg.tar.gz (../shared/data)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release} fraction=${FRACTION:-1} out=build/loading
[ $# -gt 0 ] || set -- pairs ranks
for part; do
  [[ $part == pairs || $part == ranks ]] || fail "there is no part '$part'; there are pairs and ranks"
done
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target train

jpegs=$(cifar10_jpegs)
jpeg=$out/jpeg-$fraction binary=$out/binary-$fraction
mpi-scripts/bench/pictures_subset.py "$jpegs" "$fraction" "$jpeg"
[ -f "$binary/test_batch.bin" ] || mpi-scripts/cifar10.py "$jpeg" "$binary"
python3 mpi-scripts/bench/loading.py "build/$preset/bin/train" "$jpeg" "$binary" --pairs "${PAIRS:-7}" --epochs "${EPOCHS:-3}" \
  --model "${MODEL:-resnet20}" "--options=${OPTIONS:-}" "$@"
