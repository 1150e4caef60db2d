#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a quarter of an hour on a GPU is best used for, in the order of its worth: two calls of five minutes.
#   gpu-short.sh [--out DIR] [--seconds N] [--reserve N] [--device cuda|cpu] [--small] [--programs DIR] [--list] [STEP...]
#     --out DIR      also copy the results there after each step: at most 8 files of at most 16 MiB
#     --seconds N    all of the time that there is (300); a step gets no more than what is left of it
#     --reserve N    no step is begun when fewer seconds than this are left (90)
#     --device cpu   a rehearsal where there is no GPU: small models; steps that need a GPU or its tools say so
#     --small        small models on cuda, too, for a rehearsal on emulated GPUs (tests/emulated_gpu)
#     --programs DIR what to run (the programs in build/carry/programs.tar.xz, else build/cuda)
#     --list         print the steps, with the seconds that each may take, and end
# A step that fails or takes too long does not keep the others from running. Steps that are named run, whatever ran before;
# without names, those that have no result yet, so a second call goes on where the first one ended. Results are in
# build/gpu-short: a JSON line for each step in steps.jsonl, what programs printed in log.txt, the kernel choices, and ncu's table.
# The exit code is 1 if a step failed. gpu-carry.sh --run --programs packs what a machine needs that can build and install
# nothing, with the kernel choices of the last run.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
source mpi-scripts/check/gpu-common.sh

began=$(date +%s)
case " $* " in
  *" --device cpu "* | *" --small "*) ;;  # emulated GPUs have an emulated NCCL
  *)
    use_wheels
    use_built_nccl
    ;;
esac
# What traveled comes first: a machine may have an MPI of its own, and still none of the other libraries.
if [ -d build/carry/packages ]; then LOCKSTEP_PREFIX=${LOCKSTEP_PREFIX:-build/carry/usr}; fi
[ -z "${LOCKSTEP_PREFIX:-}" ] || use_prefix "$LOCKSTEP_PREFIX"
exec python3 mpi-scripts/check/gpu_short.py --began "$began" "$@"
