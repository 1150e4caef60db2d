#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that no program that is linked with lockstep needs the libraries of CUDA or NCCL: lockstep contains CUDA's
# runtime, and loads NCCL when a group requests a GPU. Only train, and programs that link
# train's library, may need the libraries that read pictures, and those that start by variables need no MPI.
#   needed.sh PROGRAM...
set -euo pipefail
for program in "$@"; do
  needed=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  [[ $needed == *libc.so* ]] || { echo "error: readelf lists no libraries of $program" >&2; exit 1; }
  if grep -E 'cuda|nccl|nvidia' <<<"$needed"; then
    echo "error: $program is linked with that" >&2
    exit 1
  fi
  pictures=$(grep -E 'turbojpeg|spng|pugixml|yaml-cpp|lmdb' <<<"$needed" || true)
  if [ -n "$pictures" ] && [[ ! $(basename "$program") =~ ^(train|own_model)$ ]]; then
    echo "error: $program is linked with $pictures" >&2
    exit 1
  fi
  if [ "$(basename "$program")" = from_environment ] && grep -E 'libmpi|liblockstep_mpi' <<<"$needed"; then
    echo "error: $program is linked with that, and starts without MPI" >&2
    exit 1
  fi
  if nm -D --defined-only "$program" | grep -E ' (__)?(cuda|nccl)'; then
    echo "error: $program exports that, and libraries would take it for their own" >&2
    exit 1
  fi
done
