#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts the ranks of a program as torchrun does, with variables only.
#   without_mpi.sh RANKS PROGRAM...
set -euo pipefail
ranks=$1
shift
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
export WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
started=()
for ((rank = 0; rank < ranks; ++rank)); do
  RANK=$rank LOCAL_RANK=$rank "$@" &
  started+=($!)
done
status=0
for process in "${started[@]}"; do wait "$process" || status=$?; done
exit "$status"
