#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several hosts on one machine: namespaces with names, networks, processes and /dev/shm of their own, joined by a bridge.
# All lies in a private world of namespaces that ends, with whatever still runs in it, when its first process does.
#   hosts.sh [OPTION]... run N_PER_HOST COMMAND...   COMMAND under mpirun, N_PER_HOST ranks on each host
#   hosts.sh [OPTION]... exec COMMAND...             COMMAND once, beside the hosts: LOCKSTEP_HOSTS names them, and
#                                                    LOCKSTEP_LAUNCH_AGENT is what stands in for ssh
#   hosts.sh [OPTION]... up                          keeps a world for later runs, which without it make their own
#   hosts.sh down                                    ends it
#     --hosts K      how many (2): h1, h2, …
#     --rate RATE    of each host's link, each way, as tc writes it: 1gbit
#   MPIEXEC          the launcher (mpirun): Open MPI's or MPICH's
# Needs root or unprivileged user namespaces; where neither is permitted it prints the reason and exits with 77.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly network=10.77.0 state=$PWD/build/hosts agent=$PWD/mpi-scripts/hosts-agent.sh not_permitted=77
self=$PWD/mpi-scripts/hosts.sh
hosts=2
rate=

refuse() {
  printf 'skipped: hosts cannot be made here: %s\n' "$*" >&2
  exit "$not_permitted"
}

make_host() {
  local host=$1 address=$2
  : >"/run/netns/$host"
  unshare --net="/run/netns/$host" true
  ip link add "$host" type veth peer name eth0 netns "/run/netns/$host"
  ip link set "$host" master lockstep0 up
  nsenter --net="/run/netns/$host" bash -euc "
    ip link set lo up
    ip address add $address/24 dev eth0
    ip link set eth0 up
    [ -z '$rate' ] || tc qdisc add dev eth0 root tbf rate '$rate' burst 256kb latency 50ms"
}

# In a new world, as its root.
make_world() {
  local i
  mount -t tmpfs tmpfs /run
  mkdir /run/netns /run/tmp
  { cat /etc/hosts && for ((i = 1; i <= hosts; ++i)); do echo "$network.$i h$i"; done; } >/run/hosts
  mount --bind /run/hosts /etc/hosts
  ip link set lo up
  ip link add lockstep0 type bridge
  ip address add "$network.254/24" dev lockstep0
  ip link set lockstep0 up
  for ((i = 1; i <= hosts; ++i)); do make_host "h$i" "$network.$i"; done
}

# Goes on in a new world: makes the hosts, then does what the arguments say.
enter_new_world() {
  local why new_world=(unshare --net --mount --pid --fork --kill-child --mount-proc)
  if ! command -v ip >/dev/null || ! command -v tc >/dev/null; then
    refuse "ip and tc are missing; mpi-scripts/install-deps.sh installs them (package iproute2)"
  fi
  [ "$(id -u)" = 0 ] || new_world+=(--user --map-root-user)
  why=$("${new_world[@]}" ip link add lockstep0 type bridge 2>&1) || refuse "${why:-no namespaces}"
  exec "${new_world[@]}" "$self" --hosts "$hosts" --rate "$rate" inside "$@"
}

# Prints a process of the world that is up, if one is.
inhabitant() {
  local outer
  [ -f "$state/pid" ] && outer=$(<"$state/pid") && grep -qs "inside.keep" <(tr '\0' . <"/proc/$outer/cmdline") &&
    read -r -d ' ' inner <"/proc/$outer/task/$outer/children" && echo "$inner"
}

# Goes on in the world that is up, or else in a new one.
enter() {
  local inner entrance=(--net --mount --pid "--wd=$PWD")
  if inner=$(inhabitant 2>/dev/null); then
    [ "$(id -u)" = 0 ] || entrance+=(--user --preserve-credentials)
    exec nsenter --target "$inner" "${entrance[@]}" "$self" "$@"
  fi
  enter_new_world "$@"
}

up() {
  local outer
  if inhabitant >/dev/null 2>&1; then return; fi
  mkdir -p "$state"
  rm -f "$state"/*
  (enter_new_world keep >/dev/null) &
  outer=$!
  echo "$outer" >"$state/pid"
  until [ -f "$state/ready" ]; do
    kill -0 "$outer" 2>/dev/null || { wait "$outer" || exit $?; }
    sleep 0.05
  done
}

down() {
  if inhabitant >/dev/null 2>&1; then kill -KILL "$(<"$state/pid")"; fi
  rm -rf "$state"
}

# In the world: COMMAND, told about the hosts.
beside_hosts() {
  LOCKSTEP_HOSTS=$(find /run/netns -type f -printf '%f\n' | sort -V | paste -sd,)
  export LOCKSTEP_HOSTS LOCKSTEP_LAUNCH_AGENT=$agent
  # For Open MPI 4 and 5: the agent, and daemons that stay, since a host ends with its first process.
  export OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent=$agent OMPI_MCA_orte_leave_session_attached=1
  export PRTE_MCA_plm=ssh PRTE_MCA_plm_ssh_agent=$agent PRTE_MCA_prte_leave_session_attached=1
  export OMPI_MCA_orte_tmpdir_base=/run/tmp PRTE_MCA_prte_tmpdir_base=/run/tmp  # worlds have the same names and pids
  "$@"
}

# In the world: COMMAND under the launcher. The hosts have the same cores, so ranks are not bound.
launch() {
  local per_host=$1 launcher=${MPIEXEC:-mpirun} ranks
  shift
  ranks=$(($(tr ',' '\n' <<<"$LOCKSTEP_HOSTS" | wc -l) * per_host))
  if ! grep -qE 'Open ?MPI|OpenRTE' <<<"$("$launcher" --version 2>&1)"; then  # then it is MPICH's or a descendant
    exec "$launcher" -launcher ssh -launcher-exec "$agent" -iface lockstep0 -hosts "$LOCKSTEP_HOSTS" \
      -ppn "$per_host" -n "$ranks" "$@"
  fi
  [ "$ranks" -le "$(nproc)" ] || export OMPI_MCA_mpi_yield_when_idle=1
  exec "$launcher" -H "${LOCKSTEP_HOSTS//,/:$per_host,}:$per_host" -np "$ranks" --bind-to none "$@"
}

usage() { fail "usage: hosts.sh [--hosts K] [--rate RATE] run N_PER_HOST COMMAND… | exec COMMAND… | up | down"; }

while [[ ${1:-} == --* ]]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --hosts) hosts=$2 ;;
    --rate) rate=$2 ;;
    *) usage ;;
  esac
  shift 2
done
case ${1:-} in
  up | down) "$1" ;;
  exec)
    [ $# -ge 2 ] || usage
    enter beside "${@:2}"
    ;;
  run)
    [ $# -ge 3 ] || usage
    enter beside launch "${@:2}"
    ;;
  # From here on: what this script does when it calls itself in a world.
  inside)
    make_world
    "$self" "${@:2}" # no exec: the world's first process looks after what others leave behind
    ;;
  keep)
    touch "$state/ready"
    exec sleep infinity
    ;;
  beside) beside_hosts "${@:2}" ;;
  *) usage ;;
esac
