#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts a run again after failures, from its last checkpoint: see docs/launch.md.
#   supervise.sh [--max-restarts N] [--min-ranks M] -- mpirun -np 4 train --save-dir DIR ...
restarts=(--max_restarts 10)
for word; do
  case $word in
    --) break ;;
    -h | --help | --max[-_]restart*) restarts=() ;;
  esac
done
exec python3 "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/launch/main.py" "${restarts[@]}" "$@"
