#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rank 1 is killed while all ranks all-reduce through torch.distributed. Every other rank prints how long it took to learn of
it, and fails unless the error names rank 1 within a second. Start it with mpirun --enable-recovery, which leaves the others alive.

  mpirun -n 3 --enable-recovery python3 mpi-scripts/parity/torch-killed.py [lockstep|gloo]
"""
import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

# Where nothing else tells Gloo of the end, its time-out does.
dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "lockstep", timeout=datetime.timedelta(seconds=20))
rank = dist.get_rank()
values, before = torch.ones(4), time.monotonic()
try:
    for step in range(10_000):
        if step == 50 and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(values)
        before = time.monotonic()
except RuntimeError as error:  # DistBackendError is one
    seconds = time.monotonic() - before
    named = "rank 1" in str(error) and seconds < 1
    sys.stdout.write(f"rank {rank} knew after {1000 * seconds:.0f} ms: {error}\n")  # at once, so that the lines of ranks stay apart
    sys.stdout.flush()
    os._exit(0 if named else 1)
sys.exit("nobody was killed")
