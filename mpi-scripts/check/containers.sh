#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the programs as containers do: namespaces of their own for mounts, processes, IPC, names and network, the
# capabilities that Docker leaves to root, which CAP_SYS_PTRACE is none of, no way to new privileges, a /dev/shm of 64 MB,
# and a root that is read-only.
#   containers.sh [BIN]        tries BIN's programs (build/dev/bin) in each kind of container; says what went well
#   containers.sh shell CMD…   CMD in a container whose root is read-only and whose /tmp is writable
#   MPIEXEC                    the launcher (mpirun): Open MPI's or MPICH's
# Needs root or unprivileged user namespaces; where neither is permitted it prints the reason and exits with 77, or with 1
# where LOCKSTEP_REQUIRE names "namespaces".
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

readonly not_permitted=77
readonly docker=-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap
self=$PWD/mpi-scripts/check/containers.sh
# Where containers have a writable folder: /tmp, unless that has this repository in it.
scratch=/tmp
[[ $PWD/ != /tmp/* ]] || scratch=/var/tmp

refuse() {
  printf 'skipped: containers cannot be made here: %s\n' "$*" >&2
  [[ ,${LOCKSTEP_REQUIRE:-}, != *,namespaces,* ]] || exit 1
  exit "$not_permitted"
}

# container ROOT TMP CMD…: CMD in new namespaces. ROOT: ro or rw; TMP: tmp, a writable folder, or none.
container() {
  local new=(unshare --mount --pid --fork --kill-child --mount-proc --ipc --uts --net)
  [ "$(id -u)" = 0 ] || new+=(--user --map-root-user)
  "${new[@]}" "$self" inside "$@"
}

# In new namespaces, as their root.
inside() {
  local root=$1 tmp=$2 writable
  shift 2
  hostname container
  ip link set lo up
  mount --make-rprivate /
  mount -t tmpfs -o size=64m,mode=1777 tmpfs /dev/shm
  [ "$tmp" = none ] || mount -t tmpfs -o size=256m,mode=1777 tmpfs "$scratch"
  if [ "$root" = ro ]; then
    # Each mount by itself, since a read-only root leaves what is mounted below it as it was.
    [ "$tmp" = none ] || writable=$scratch
    awk -v writable="${writable:-}" '$2 !~ /^\/(proc|sys|dev)(\/|$)/ && $2 != writable { print $2 }' /proc/self/mounts |
      sort -u | while read -r place; do mount -o remount,bind,ro "$place" 2>/dev/null || true; done
    if touch "$PWD/.written" 2>/dev/null; then
      rm "$PWD/.written"
      fail "the root could not be made read-only"
    fi
  fi
  [ "$tmp" = none ] || export TMPDIR=$scratch
  exec setpriv --no-new-privs --bounding-set "$docker" "$@"
}

# In a container: TRAINING, which must save a checkpoint.
saves() {
  "$@" --save-dir "$TMPDIR/run"
  [ -s "$TMPDIR/run/checkpoints/last/model.safetensors" ] || fail "train has saved no checkpoint in $TMPDIR/run"
}

failed=0
# try WHAT COMMAND…: says whether it went well, and if not shows what it wrote.
try() {
  local what=$1 output
  shift
  if output=$("$@" 2>&1); then
    printf 'passed  %s\n' "$what"
  else
    printf 'FAILED  %s: exit code %s\n%s\n' "$what" $? "$output"
    failed=1
  fi
}

try_all() {
  local bin=$1 training=(--dataset synthetic-digits --steps 4 --batch 64)
  local saves=("$self" saves)
  local job=("${MPIEXEC:-mpirun}" -np 2)
  if grep -qE 'Open ?MPI|OpenRTE' <<<"$("${job[0]}" --version 2>&1)"; then job+=(--oversubscribe --bind-to none); fi
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
  export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
  try "root, 64 MB of /dev/shm, no CAP_SYS_PTRACE: train, with a checkpoint" \
    container rw tmp "${saves[@]}" "$bin/train" "${training[@]}"
  try "the same: mpirun -np 2 train" \
    container rw tmp "${saves[@]}" "${job[@]}" "$bin/train" "${training[@]}"
  try "the same: 256 MiB all-reduced between 2 ranks, four times /dev/shm" \
    container rw tmp "${job[@]}" "$bin/comm-bench" --min 256M --max 256M --repetitions 2 --algorithm shared-memory
  try "read-only root, writable /tmp: mpirun -np 2 train" \
    container ro tmp "${saves[@]}" "${job[@]}" "$bin/train" "${training[@]}"
  try "read-only root, nothing writable but /dev/shm, TMPDIR=/dev/shm: mpirun -np 2 train" \
    container ro none env TMPDIR=/dev/shm "${saves[@]}" "${job[@]}" "$bin/train" "${training[@]}"
  if [ "$(id -u)" = 0 ]; then
    try "read-only root, an ordinary user: mpirun -np 2 train" \
      container ro tmp setpriv --reuid 1000 --regid 1000 --clear-groups env HOME="$scratch" "${saves[@]}" "${job[@]}" "$bin/train" "${training[@]}"
  fi
  [ "$failed" = 0 ]
}

case ${1:-} in
  inside) inside "${@:2}" ;;
  saves) saves "${@:2}" ;;
  shell)
    [ $# -ge 2 ] || fail "usage: containers.sh shell COMMAND…"
    container ro tmp "${@:2}"
    ;;
  *)
    bin=$(realpath -e "${1:-build/dev/bin}") || fail "no folder ${1:-build/dev/bin}: build the programs, or name another"
    for tool in unshare setpriv ip; do command -v "$tool" >/dev/null || refuse "$tool is missing"; done
    why=$(container ro tmp true 2>&1) || refuse "${why:-no namespaces}"
    try_all "$bin"
    ;;
esac
