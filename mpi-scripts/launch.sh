#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts a program on the GPUs or processors of one or several hosts: see launch.sh --help. Installed as lockstep-launch.
exec python3 "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/launch/main.py" "$@"
