#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests when quickstart.sh says that a newer oneDNN may be faster.
source "$(dirname "${BASH_SOURCE[0]}")/../../mpi-scripts/common.sh"

cpuinfo=$(mktemp)
trap 'rm -f "$cpuinfo"' EXIT
# expect yes|no VERSION FLAGS
expect() {
  local helps=no
  echo "flags : fpu $3 sse2" >"$cpuinfo"
  if newer_onednn_helps "$cpuinfo" "$2"; then helps=yes; fi
  [ "$helps" = "$1" ] || fail "$helps, not $1, with oneDNN $2 on a processor with $3"
}
expect yes 2.6.3 "amx_bf16 avx512_bf16"
expect no 3.7.2 "amx_bf16 avx512_bf16"
expect no 2.6.3 avx512_bf16
expect no 2.6.3 not_amx_bf16
