#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the table that PaddleDetection, PaddleSeg and PaddleOCR publish for training on several hosts: time, metric, acceleration and
# efficiency.
#   scaling.sh CONFIG [--hosts 1,2,4] [--pace] [--simulate] [-- OPTION...]
#     CONFIG      a configuration file of train
#     OPTION...   further options of train, such as --data DIR
#     --hosts     trains on so many hosts, one rank each (1,2). The first number is what the others are compared with. Hosts are those
#                 of LOCKSTEP_HOSTS (host1,host2); without it all ranks are on this machine
#     --pace      instead: hosts are network namespaces, whose ranks sleep instead of computing (examples/paced_training.cpp), so that
#                 more of them than there are processors can be timed. For each acceleration in
#                 docs/measurements/published_scaling.csv for which the model of CONFIG stands, links get the rate with which a ring
#                 all-reduce that begins after backward gives that acceleration; what lockstep's defaults give on these links stands
#                 beside it. Each rank has the batch of CONFIG
#     --simulate  instead: the all-reduce of each bucket on 4 to 256 ranks is simulated by SimGrid (bench/simulate.sh); buckets are those
#                 of a run on two ranks. Each rank has the batch of CONFIG
# Prints Markdown, adds the rows to docs/measurements/scaling.csv in place of earlier ones of the same model, and draws
# docs/plots/scaling.svg. Logs are in build/scaling; with --hosts, a run whose log is complete there is not repeated.
#   PRESET        the build to use (release)
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() { fail "$1; usage: scaling.sh CONFIG [--hosts N,N…] [--pace] [--simulate] [-- OPTION…]"; }

preset=${PRESET:-release}
out=build/scaling
configuration=${1:-}
[ -f "$configuration" ] || usage "'$configuration' is no configuration file"
shift
hosts=1,2
how=measure
while [ $# -gt 0 ]; do
  case $1 in
    --hosts)
      [[ ${2:-} =~ ^[1-9][0-9]*(,[1-9][0-9]*)+$ ]] || usage "--hosts '${2:-}': give at least two numbers with commas between"
      hosts=$2
      shift
      ;;
    --pace) how=pace ;;
    --simulate) how=simulate ;;
    --)
      shift
      break
      ;;
    *) usage "unknown option '$1'" ;;
  esac
  shift
done

section "Building train"
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs"
if [ "$how" = pace ]; then
  cmake --install "build/$preset" --prefix "$out/prefix" >/dev/null
  cmake -S examples -B "$out/examples" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$PWD/$out/prefix" >/dev/null
  cmake --build "$out/examples" --target paced_training
fi
[ "$how" != simulate ] || mpi-scripts/bench/simulate.sh install build

section "Running"
exec mpi-scripts/bench/scaling.py "$how" --train "build/$preset/bin/train" --out "$out" --configuration "$configuration" \
  --hosts "$hosts" -- "$@"
