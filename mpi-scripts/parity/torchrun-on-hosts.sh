#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts a script by torchrun, PER_HOST ranks (2) on each of the hosts of local-cluster.sh.
#   local-cluster.sh run torchrun-on-hosts.sh PYTHON SCRIPT [ARGUMENT]...
set -euo pipefail
read -ra hosts <<<"${LOCKSTEP_HOSTS//,/ }"
started=()
for number in "${!hosts[@]}"; do
  # shellcheck disable=SC2029  # they are meant to be expanded here
  ssh "${hosts[number]}" "cd '$PWD' && PYTHONPATH='${PYTHONPATH:-}' OMP_NUM_THREADS=1 '$1' -m torch.distributed.run --nnodes ${#hosts[@]} \
    --nproc-per-node ${PER_HOST:-2} --node-rank $number --master-addr '${hosts[0]}' --master-port 29400 ${*:2}" &
  started+=($!)
done
status=0
for process in "${started[@]}"; do wait "$process" || status=$?; done
exit "$status"
