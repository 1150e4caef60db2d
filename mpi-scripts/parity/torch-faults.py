#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rank 1 leaves the other ranks waiting in a call of torch.distributed. Every other rank prints how long it took to learn why, and
fails unless the error names rank 1 in time.

  mpirun -n 3 --enable-recovery python3 mpi-scripts/parity/torch-faults.py CASE

CASE is late (rank 1 is late for an all-reduce of a group with a deadline of 2 s), monitored (for a monitored barrier with a time-out
of 2 s), abort (it aborts the group) or exception (its script ends by an exception). The other ranks stay alive with --enable-recovery.
"""
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

SECONDS = 2
# What the error says beside the rank, and within how many seconds the other ranks get it.
CASES = {"late": ("rank 1", SECONDS, 2 * SECONDS), "monitored": ("monitored_barrier: rank 1 did not come", SECONDS, 2 * SECONDS),
         "abort": ("the process group was aborted", 0, 1), "exception": ("ValueError: no such picture", 0, 1)}


def main():
    case = sys.argv[1]
    text, least, most = CASES[case]
    # The store gives ranks time to start, and the group has a short deadline.
    store, rank, size = next(dist.rendezvous("env://"))
    store.set(f"started/{rank}", "")
    store.wait([f"started/{other}" for other in range(size)])
    timeout = datetime.timedelta(seconds=SECONDS if case == "late" else 60)
    dist.init_process_group("lockstep", store=store, rank=rank, world_size=size, timeout=timeout)
    dist.all_reduce(torch.ones(4))
    if rank == 1:
        if case == "abort":
            dist.group.WORLD.abort()
        if case == "exception":
            raise ValueError("no such picture")
        time.sleep(3 * SECONDS)
        os._exit(0)
    before = time.monotonic()
    try:
        if case == "monitored":
            dist.monitored_barrier(timeout=datetime.timedelta(seconds=SECONDS))
        else:
            dist.all_reduce(torch.ones(4))
    except RuntimeError as error:  # DistBackendError is one
        seconds = time.monotonic() - before
        is_right = text in str(error) and "rank 1" in str(error) and least * 0.9 <= seconds <= most
        verdict = "as it should" if is_right else f"wrong: wanted '{text}' after {least} to {most} s"
        sys.stdout.write(f"{case}: rank {rank} knew after {1000 * seconds:.0f} ms, {verdict}: {error}\n")  # at once: lines stay apart
        sys.stdout.flush()
        os._exit(0 if is_right else 1)
    sys.exit("nothing happened")


main()
