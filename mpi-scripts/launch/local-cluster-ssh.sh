#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stands in for ssh in a cluster that local-cluster.sh makes: ssh [OPTION]... HOST COMMAND...   HOST: a name or an address
# The command has this process's variables and working directory. Without a command it is a shell.
while [[ ${1:-} == -* ]]; do
  # These options of ssh have a value, which may be the next word.
  [[ $1 != -[BbcDEeFIiJLlmOopQRSWw] ]] || shift
  shift
done
host=${1##*@}
[[ $host != 10.77.0.* ]] || host=host${host##*.}
shift
if [ ! -e "/run/hosts/$host/net" ]; then
  echo "ssh: Could not resolve hostname $host: this cluster has the hosts ${LOCKSTEP_HOSTS:-of /run/hosts}" >&2
  exit 255
fi
printf -v command 'cd %q; %s' "$PWD" "${*:-exec bash}"
namespaces=("--net=/run/hosts/$host/net" "--uts=/run/hosts/$host/uts" "--ipc=/run/hosts/$host/ipc")
if [ "$(readlink /proc/self/ns/pid)" = "$(</run/hosts/pid-namespace)" ]; then
  exec nsenter "${namespaces[@]}" --mount --pid --target "$(<"/run/hosts/$host/pid")" bash -c "$command"
fi
# From another host the kernel lets nobody enter the host's process namespace: the command gets one of its own.
exec nsenter "${namespaces[@]}" unshare --mount --pid --fork --kill-child --mount-proc \
  bash -c "mount --bind /run/hosts/$host/shm /dev/shm && mount --bind /run/hosts/$host/local /run/local && $command"
