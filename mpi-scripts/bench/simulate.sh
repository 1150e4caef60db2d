#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times all-reduces on clusters that do not exist: lockstep's algorithms and SMPI's imitations of four MPI libraries run
# under SimGrid's SMPI. docs/scale.md says what is simulated.
#   simulate.sh [install | build | check | run | draw]...     all of them where none is named
#   RANKS (16 64 256 1024)          how many
#   BYTES (1024 1048576 104857600)  of the buffer
#   PLATFORMS (flat nodes)          one rank a node, or eight
#   CONTENDERS                      of `run`, instead of the lists below: ompi, …, auto:SEGMENT:BLOCKS_IN_FLIGHT, or
#                                   ALGORITHM:SEGMENT:BLOCKS_IN_FLIGHT:RADIX
# `run` appends to build/smpi/results.csv what is not there yet, so that it can be done in pieces; `draw` makes of it
# docs/scale/results.csv, the curves beside it, and a Markdown table on standard output.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

read -ra ranks_list <<<"${RANKS:-16 64 256 1024}"
read -ra bytes_list <<<"${BYTES:-1024 1048576 104857600}"
read -ra platforms <<<"${PLATFORMS:-flat nodes}"
out=build/smpi
results=$out/results.csv

selectors=(ompi mpich mvapich2 impi)
whole=1073741824 # a segment that no buffer exceeds: one block
# lockstep's contenders, in one place. The words after one say where it is left out: hierarchies of one rank a node; and,
# to save real time, rings of millions of messages of a few bytes, many messages at a time of more than a few bytes, and
# messages of the whole of a large buffer.
lockstep=(
  "auto:64512:4" # what a user gets
  "auto:$whole:1"
  "recursive-doubling:$whole:1:2 large"
  "recursive-doubling:$whole:1:8 large"
  "recursive-doubling:$whole:1:32 all-but-small"
  "halving-doubling:$whole:1:2"
  "halving-doubling:$whole:1:8"
  "ring:$whole:1:2 tiny-chunks"
  "tree:262144:16:2"
  "hierarchical-recursive-doubling:$whole:1:2 flat large"
  "hierarchical-recursive-doubling:$whole:1:16 flat all-but-small"
  "hierarchical-halving-doubling:$whole:1:2 flat"
  "hierarchical-halving-doubling:$whole:1:8 flat"
  "hierarchical-ring:$whole:1:2 flat"
)

install() {
  dpkg -s libsimgrid-dev >/dev/null 2>&1 && return
  section "Installing libsimgrid-dev"
  if [ "$(id -u)" = 0 ]; then as_root=(); else as_root=(sudo); fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends libsimgrid-dev
}

build() {
  section "Building $out with smpicxx"
  # smpicxx makes no ordinary programs, which CMake's first checks need.
  SMPI_PRETEND_CC=1 cmake -G Ninja -S mpi-scripts/bench/smpi -B "$out" -DCMAKE_CXX_COMPILER=smpicxx
  cmake --build "$out" -j "$jobs"
}

# Two-level fat trees without a bottleneck: as many links up as down at every switch.
topology() {
  case $1 in
    2) echo "1;2;1;1" ;;
    4) echo "1;4;1;1" ;;
    8) echo "2;4,2;1,4;1,1" ;;
    16) echo "2;4,4;1,4;1,1" ;;
    32) echo "2;8,4;1,8;1,1" ;;
    64) echo "2;8,8;1,8;1,1" ;;
    128) echo "2;16,8;1,16;1,1" ;;
    256) echo "2;16,16;1,16;1,1" ;;
    1024) echo "2;32,32;1,32;1,1" ;;
    *) fail "there is no fat tree of $1 nodes here; RANKS are 4, 16, 64, 256 or 1024" ;;
  esac
}

ranks_per_node() { if [ "$1" = nodes ]; then echo 8; else echo 1; fi; }

# Writes $out/PLATFORM-RANKS.xml and .hosts. A message inside a node goes through its loopback: 10 GB/s for each at a
# time, 0.5 us.
describe() {
  local per nodes rank
  per=$(ranks_per_node "$1")
  nodes=$(($2 / per))
  cat >"$out/$1-$2.xml" <<END
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="cluster" prefix="node-" suffix="" radical="0-$((nodes - 1))" speed="1Gf"
           topology="FAT_TREE" topo_parameters="$(topology "$nodes")" bw="100Gbps" lat="2us"
           loopback_bw="10GBps" loopback_lat="0.5us"/>
</platform>
END
  for ((rank = 0; rank < $2; ++rank)); do echo "node-$((rank / per))"; done >"$out/$1-$2.hosts"
}

# simulate PROGRAM PLATFORM RANKS USED SELECTOR BYTES,… CONTENDER…     USED of the platform's ranks take part
# SMPI's own factors for bandwidth and latency, and traffic in one direction that slows down the other, imitate gigabit
# Ethernet under TCP; here links do what the platform says.
simulate() {
  local program=$1 platform=$2 ranks=$3 used=$4 selector=$5
  shift 5
  describe "$platform" "$ranks"
  smpirun -no-privatize -np "$used" -platform "$out/$platform-$ranks.xml" -hostfile "$out/$platform-$ranks.hosts" \
    --cfg=smpi/simulate-computation:no \
    --cfg=smpi/bw-factor:0:1 --cfg=smpi/lat-factor:0:1 --cfg=network/crosstraffic:no \
    --cfg=smpi/coll-selector:"$selector" --log=root.thresh:warning \
    "$out/$program" "$(ranks_per_node "$platform")" "$@"
}

is_selector() { [[ " ${selectors[*]} " == *" $1 "* ]]; }

# left_out PLATFORM RANKS BYTES [WHERE]...
left_out() {
  local platform=$1 ranks=$2 bytes=$3 where
  shift 3
  for where in "$@"; do
    case $where in
      flat) [ "$platform" != flat ] || return 0 ;;
      large) [ "$bytes" -le 1048576 ] || return 0 ;;
      all-but-small) [ "$bytes" -le 65536 ] || return 0 ;;
      tiny-chunks) [ "$ranks" -le 64 ] || [ $((bytes / ranks)) -ge 65536 ] || return 0 ;;
    esac
  done
  return 1
}

# Real data and arithmetic, in memory that ranks do not share: does every algorithm add up what it should?
check() {
  local where names=("tree-order:$whole:1:2" "hierarchical-tree-order:$whole:1:2") # right, and not meant to be fast
  section "Checking sums"
  for entry in "${lockstep[@]}"; do names+=("${entry%% *}"); done
  for where in "flat 16 13" "flat 16 16" "nodes 64 64"; do
    # shellcheck disable=SC2086  # three words
    simulate simulate-data-present $where default 1024,1048576 "${names[@]}" | tee "$out/check.csv"
    if [ "$(wc -l <"$out/check.csv")" != $((2 * ${#names[@]})) ] || grep -qv ',0,[^,]*$' "$out/check.csv"; then
      fail "wrong sums, or none"
    fi
  done
}

# run_one PLATFORM RANKS CONTENDER [WHERE LEFT OUT]...: the sizes that are not there yet, in one process
run_one() {
  local platform=$1 ranks=$2 contender=$3 selector=default name=$3 missing=() bytes
  shift 3
  for bytes in "${bytes_list[@]}"; do
    grep -qs "^$platform,$contender,$ranks,$bytes," "$results" || left_out "$platform" "$ranks" "$bytes" "$@" ||
      missing+=("$bytes")
  done
  [ ${#missing[@]} != 0 ] || return 0
  case " ${selectors[*]} " in *" $contender "*) selector=$contender name=mpi ;; esac
  echo "$platform, $ranks ranks: $contender"
  # Kept apart until it has ended well: a simulation that dies must leave no half a line among the results.
  simulate simulate-data-absent "$platform" "$ranks" "$ranks" "$selector" "$(IFS=,; echo "${missing[*]}")" "$name" \
    >"$out/run.csv" || fail "the simulation failed: $(tail -n 3 "$out/run.csv")"
  while IFS=, read -r _ _ bytes seconds _ choice; do echo "$platform,$contender,$ranks,$bytes,$seconds,$choice"; done \
    <"$out/run.csv" >>"$results"
}

run() {
  local platform ranks contender entry
  section "Simulating"
  touch "$results"
  for ranks in "${ranks_list[@]}"; do
    for platform in "${platforms[@]}"; do
      if [ -n "${CONTENDERS:-}" ]; then
        for contender in $CONTENDERS; do run_one "$platform" "$ranks" "$contender"; done
        continue
      fi
      # shellcheck disable=SC2086  # a contender and where it is left out
      for entry in "${lockstep[@]}" "${selectors[@]}"; do run_one "$platform" "$ranks" $entry; done
    done
  done
}

draw() { python3 mpi-scripts/bench/simulate_report.py "$results" docs/scale; }

[ $# -gt 0 ] || set -- install build check run draw
for stage in "$@"; do
  case $stage in
    install | build | check | run | draw) "$stage" ;;
    *) fail "unknown stage '$stage'; there are install build check run draw" ;;
  esac
done
