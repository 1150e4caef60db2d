#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts ranks of a program on each host of local-cluster.sh by ssh and torchrun's variables, without MPI.
#   local-cluster.sh run without_mpi.sh RANKS_PER_HOST PROGRAM...
set -euo pipefail
per_host=$1
shift
read -ra hosts <<<"${LOCKSTEP_HOSTS//,/ }"
size=$((per_host * ${#hosts[@]}))
started=()
for ((rank = 0; rank < size; ++rank)); do
  # shellcheck disable=SC2029  # they are meant to be expanded here
  ssh "${hosts[rank / per_host]}" "cd '$PWD' && RANK=$rank WORLD_SIZE=$size MASTER_ADDR=${hosts[0]} MASTER_PORT=29500 exec $*" &
  started+=($!)
done
status=0
for process in "${started[@]}"; do wait "$process" || status=$?; done
exit "$status"
