#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several hosts on one machine, host1, host2, …: namespaces with names, networks, processes and /dev/shm of their own, which
# a bridge connects. File systems are shared, and ssh reaches every host. Everything is inside a private world of namespaces
# that ends, with all that still runs in it, when its first process ends.
#   local-cluster.sh run [OPTION]... COMMAND...   starts COMMAND beside the hosts, as a user would, in the caller's folder:
#                                                 run mpirun -H host1:2,host2:2 train
#   local-cluster.sh up [OPTION]...               keeps a cluster for later runs without options
#   local-cluster.sh down                         ends it
#     --hosts N       number of hosts (2), at most 99
#     --slurm         a Slurm of these hosts: run --slurm srun -N2 -n4 train
#     --gpus N        GPUs of each host that Slurm hands out (0), whether they exist or not; implies --slurm
#     --rate RATE     rate of each host's link in each direction, as tc writes it: 1gbit
#     --per-host N    only for run: COMMAND under MPIEXEC (mpirun), N ranks on each host; options of MPIEXEC may precede it
# A run with one of the first four options has a cluster of its own, and so has a run while none is up. COMMAND's variable
# LOCKSTEP_HOSTS names the hosts. Needs root or unprivileged user namespaces, and root for Slurm; where that is not
# permitted, or Slurm is not installed, the script prints the reason and exits with 77.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly network=10.77.0 state=$PWD/build/local-cluster not_permitted=77
readonly caller=${LOCKSTEP_CALLER:-$OLDPWD} # this script calls itself
readonly self=$PWD/mpi-scripts/local-cluster.sh ssh=$PWD/mpi-scripts/launch/local-cluster-ssh.sh
hosts=2
rate=
slurm=
gpus=0
per_host=

refuse() {
  printf 'skipped: %s\n' "$*" >&2
  exit "$not_permitted"
}

# make_host NAME ADDRESS
make_host() {
  local name=$1 folder=/run/hosts/$1
  mkdir -p "$folder"/{shm,local}
  touch "$folder"/{net,uts,ipc}
  mount -t tmpfs -o mode=1777 tmpfs "$folder/shm"
  unshare "--net=$folder/net" "--uts=$folder/uts" "--ipc=$folder/ipc" hostname "$name"
  ip link add "$name" type veth peer name eth0 netns "$folder/net"
  ip link set "$name" master lockstep0 up
  nsenter "--net=$folder/net" bash -euc "
    ip link set lo up
    ip address add $2/24 dev eth0
    ip link set eth0 up
    [ -z '$rate' ] || tc qdisc add dev eth0 root tbf rate '$rate' burst 256kb latency 50ms"
}

# boot NAME: starts the host's first process, which also collects processes that have lost their parent. It sees the
# namespaces of those hosts only that have been made before.
boot() {
  local name=$1 folder=/run/hosts/$1 outer inner
  nsenter "--net=$folder/net" "--uts=$folder/uts" "--ipc=$folder/ipc" unshare --mount --pid --fork --kill-child --mount-proc \
    bash -euc "mount --bind $folder/shm /dev/shm; mount --bind $folder/local /run/local; touch $folder/ready; sleep infinity & wait" \
    >/dev/null 2>&1 &
  outer=$!
  until [ -e "$folder/ready" ]; do
    kill -0 "$outer" 2>/dev/null || fail "$name has ended before it was ready"
    sleep 0.01
  done
  read -r -d ' ' inner <"/proc/$outer/task/$outer/children"
  echo "$inner" >"$folder/pid"
}

# In a new world, as its root.
make_world() {
  local i name
  name=$(hostname)
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir -p /run/{bin,hosts,local}
  mkdir -m 1777 /run/tmp
  ln -s "$ssh" /run/bin/ssh
  readlink /proc/self/ns/pid >/run/hosts/pid-namespace
  {
    for ((i = 1; i <= hosts; ++i)); do echo "$network.$i host$i"; done
    # The hosts cannot reach a loopback address, which many machines give their own name.
    if [ "$name" = localhost ]; then cat /etc/hosts; else echo "$network.254 $name" && sed -E "s/[[:space:]]$name([[:space:]]|\$)/ /g" /etc/hosts; fi
  } >/run/etc-hosts
  mount --bind /run/etc-hosts /etc/hosts
  ip link set lo up
  ip link add lockstep0 type bridge
  ip address add "$network.254/24" dev lockstep0
  ip link set lockstep0 up
  for ((i = 1; i <= hosts; ++i)); do make_host "host$i" "$network.$i"; done
  for ((i = 1; i <= hosts; ++i)); do boot "host$i"; done
  [ -z "$slurm" ] || start_slurm
}

# Job steps find MPI's processes by PMIx. Jobs share nothing with the machine's own Slurm, if it has one.
start_slurm() {
  local i
  mkdir -p /run/slurm/state /run/munge
  head -c 1024 /dev/urandom >/run/slurm/munge.key
  chmod 400 /run/slurm/munge.key
  cat >/run/slurm/slurm.conf <<END
ClusterName=lockstep
SlurmctldHost=$(hostname)($network.254)
SlurmUser=root
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmctldLogFile=/run/slurm/slurmctld.log
StateSaveLocation=/run/slurm/state
SlurmdPidFile=/run/local/slurmd.pid
SlurmdLogFile=/run/slurm/%n.log
SlurmdSpoolDir=/run/local/slurmd
SlurmdParameters=config_overrides
TmpFS=/run/local
AuthInfo=socket=/run/munge/munge.socket.2,cred_expire=5
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0
GresTypes=gpu
NodeName=host[1-$hosts] CPUs=$(($(nproc) > 1 ? $(nproc) : 2))$([ "$gpus" = 0 ] || echo " Gres=gpu:$gpus")
PartitionName=all Nodes=ALL Default=YES State=UP
END
  for ((i = 0; i < gpus; ++i)); do
    touch "/run/slurm/gpu$i"
    echo "Name=gpu File=/run/slurm/gpu$i" >>/run/slurm/gres.conf
  done
  echo CgroupPlugin=cgroup/v1 >/run/slurm/cgroup.conf # nothing above uses control groups, and this plugin starts without them
  # With the plugin's other ways, MPI_Init fails in some starts on busy processors; train.sbatch has the reason.
  printf '%s\n' PMIxCollFence=ring PMIxDirectConn=false >/run/slurm/mpi.conf
  export SLURM_CONF=/run/slurm/slurm.conf
  munged --force --key-file=/run/slurm/munge.key --socket=/run/munge/munge.socket.2 --pid-file=/run/munge/munged.pid \
    --log-file=/run/slurm/munged.log --seed-file=/run/slurm/munged.seed 2>/run/slurm/start.log || no_slurm "munged failed"
  slurmctld 2>>/run/slurm/start.log || no_slurm "slurmctld failed"
  for ((i = 1; i <= hosts; ++i)); do
    "$ssh" "host$i" slurmd -N "host$i" 2>>/run/slurm/start.log || no_slurm "slurmd failed on host$i"
  done
  for ((i = 0; i < 300; ++i)); do
    [ "$(sinfo --noheader --Node --states=idle 2>/dev/null | wc -l)" != "$hosts" ] || return 0
    sleep 0.1
  done
  no_slurm "after 30 s its state is $(sinfo --noheader --format='%N %T %E' | paste -sd,)"
}

no_slurm() {
  tail -n 20 /run/slurm/*.log >&2
  refuse "Slurm cannot be started here: $1; the messages of its daemons are above"
}

# Ctrl-C and the end of a terminal are for COMMAND. What enters a world ignores them, and so waits for what COMMAND does then.
# What it starts, behind "${as_before[@]}", has them as before, and finds the caller's folder.
as_before=(env)
leave_signals_to_command() {
  local name
  if env --default-signal=INT true 2>/dev/null; then # from coreutils 8.31 on
    for name in INT HUP; do
      [ -n "$(trap -p "$name")" ] || as_before+=("--default-signal=$name")
      trap '' "$name"
    done
  fi
  as_before+=("LOCKSTEP_CALLER=$caller")
}

# Goes on in a new world: makes the hosts, then does what the arguments say.
enter_new_world() {
  local why program new_world=(unshare --net --mount --pid --fork --kill-child --mount-proc)
  if ! command -v ip >/dev/null || ! command -v tc >/dev/null; then
    refuse "hosts cannot be made here: ip and tc are missing; mpi-scripts/install-deps.sh installs them (package iproute2)"
  fi
  if [ -n "$slurm" ]; then
    [ "$(id -u)" = 0 ] || refuse "Slurm cannot be started here: its daemons need root"
    for program in munged slurmctld slurmd srun; do
      command -v "$program" >/dev/null ||
        refuse "Slurm cannot be started here: $program is missing; mpi-scripts/install-deps.sh installs it (packages slurm-wlm and munge)"
    done
  fi
  [ "$(id -u)" = 0 ] || new_world+=(--user --map-root-user)
  why=$("${new_world[@]}" ip link add lockstep0 type bridge 2>&1) || refuse "hosts cannot be made here: ${why:-no namespaces}"
  leave_signals_to_command
  exec "${new_world[@]}" "${as_before[@]}" "$self" inside --hosts "$hosts" --rate "$rate" ${slurm:+--slurm --gpus "$gpus"} "$@"
}

# Prints a process of the world that is up, if one is.
inhabitant() {
  local outer
  [ -f "$state/pid" ] && outer=$(<"$state/pid") && grep -qs "local-cluster.sh.inside.*keep" <(tr '\0' . <"/proc/$outer/cmdline") &&
    read -r -d ' ' inner <"/proc/$outer/task/$outer/children" && echo "$inner"
}

# Goes on in the world that is up, or else in a new one.
enter() {
  local inner entrance=(--net --mount --pid "--wd=$PWD")
  if inner=$(inhabitant 2>/dev/null); then
    [ "$(id -u)" = 0 ] || entrance+=(--user --preserve-credentials)
    leave_signals_to_command
    exec nsenter --target "$inner" "${entrance[@]}" "${as_before[@]}" "$self" "$@"
  fi
  enter_new_world "$@"
}

up() {
  local outer
  if inhabitant >/dev/null 2>&1; then fail "a cluster is up; end it with: mpi-scripts/local-cluster.sh down"; fi
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

# In the world: COMMAND, told about the hosts. They have the same processors, so ranks are not bound and do not spin.
beside_hosts() {
  LOCKSTEP_HOSTS=$(find /run/hosts -mindepth 1 -type d -name 'host*' -printf '%f\n' | sort -V | paste -sd,)
  export LOCKSTEP_HOSTS PATH=/run/bin:$PATH OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
  unset "${!SLURM_JOB@}" # of a job in which this script runs
  [ ! -e /run/slurm ] || export SLURM_CONF=/run/slurm/slurm.conf
  # For Open MPI 4 and 5. Clusters have the same names and process numbers, so each has its own session directories.
  export OMPI_MCA_orte_tmpdir_base=/run/tmp PRTE_MCA_prte_tmpdir_base=/run/tmp
  export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
  export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle:-1}
  unset LOCKSTEP_CALLER
  cd "$caller"
  if [ "$1" = launch ]; then "$@"; else exec "$@"; fi
}

# In the world: COMMAND under the launcher.
launch() {
  local per_host=$1 launcher=${MPIEXEC:-mpirun} ranks
  shift
  ranks=$(($(tr ',' '\n' <<<"$LOCKSTEP_HOSTS" | wc -l) * per_host))
  if ! grep -qE 'Open ?MPI|OpenRTE' <<<"$("$launcher" --version 2>&1)"; then # then it is MPICH's or a descendant
    exec "$launcher" -hosts "$LOCKSTEP_HOSTS" -ppn "$per_host" -n "$ranks" "$@"
  fi
  [ "$ranks" -gt "$(nproc)" ] || export OMPI_MCA_mpi_yield_when_idle=0
  exec "$launcher" -H "${LOCKSTEP_HOSTS//,/:$per_host,}:$per_host" -np "$ranks" --bind-to none "$@"
}

usage() {
  printf 'error: %s\n' "$*" >&2
  fail "usage: local-cluster.sh run [--hosts N] [--slurm] [--gpus N] [--rate RATE] [--per-host N] COMMAND… | up [same options] | down"
}

number() { [[ $2 =~ ^[1-9][0-9]?$ ]] || usage "$1 '$2': give a number from 1 to 99"; }

action=${1:-}
shift || usage "say what to do"
# What this script does when it calls itself in a world.
case $action in
  beside) beside_hosts "$@"; exit ;;
  keep) touch "$state/ready"; exec sleep infinity ;;
esac

enters=enter
while [[ ${1:-} == --* ]]; do
  case $1 in
    --slurm)
      slurm=yes enters=enter_new_world
      shift
      continue
      ;;
    --hosts | --gpus | --rate | --per-host) [ $# -ge 2 ] || usage "$1 needs a value" ;;
    *) break ;;
  esac
  case $1 in
    --hosts) number "$1" "$2"; hosts=$2 enters=enter_new_world ;;
    --gpus) [ "$2" = 0 ] || number "$1" "$2"; gpus=$2 slurm=yes enters=enter_new_world ;;
    --rate) rate=$2 enters=enter_new_world ;;
    --per-host) number "$1" "$2"; per_host=$2 ;;
  esac
  shift 2
done
case $action in
  up | down)
    [ $# = 0 ] || usage "$action: unknown argument '$1'"
    [ -z "$per_host" ] || usage "--per-host belongs to run"
    "$action"
    ;;
  run)
    [ $# -ge 1 ] || usage "run needs a command"
    if [ -n "$per_host" ]; then
      "$enters" beside launch "$per_host" "$@"
    else
      [[ $1 != -* ]] || usage "unknown option '$1'"
      "$enters" beside "$@"
    fi
    ;;
  inside)
    make_world
    trap : HUP INT TERM # and waits for COMMAND, which gets them, too
    "$self" "$@" # no exec: the world's first process looks after what others leave behind
    ;;
  *) usage "unknown action '$action'" ;;
esac
