#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains with DistributedDataParallel on a group whose members change: three processes, of which one is killed, the two that are
left, these and a new one, and the two again after members that do not come were named in time. After each change all members must
have the weights of a process that trains alone on the same samples.

  tests/install/without_mpi.sh 3 python3 mpi-scripts/parity/torch-reconfigure.py

Process 1, which is killed, serves as rank 0 of the first group. Process 0 starts the new process, 3.
"""
import datetime
import os
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist

STEPS = 5
SECONDS = 2  # for members that do not come
ME = int(os.environ.get("NEW_PROCESS", os.environ["RANK"]))


def say(text):
    sys.stdout.write(f"process {ME}: {text}\n")  # at once, so that the lines of processes stay apart
    sys.stdout.flush()


def samples(step, process):
    generator = torch.Generator().manual_seed(100 * step + process)
    return torch.randn(4, 6, generator=generator, dtype=torch.float64)


def new_model():
    torch.manual_seed(1)
    return torch.nn.Linear(6, 2).double()


def train(model, steps, processes):
    """Trains on the samples of these processes, the mean of whose gradients counts, as with DistributedDataParallel."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in steps:
        optimizer.zero_grad()
        for process in processes:
            loss = model(samples(step, process)).square().mean()
            (loss / len(processes)).backward()
        optimizer.step()


def train_together(model, alone, begin, members):
    steps = range(begin, begin + STEPS)
    # Its constructor gives all members the weights of rank 0, so also those that are new.
    train(torch.nn.parallel.DistributedDataParallel(model), steps, [ME])
    train(alone, steps, members)
    for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-12, atol=1e-15), (ours, theirs)
    rank, size = dist.get_rank(), dist.get_world_size()
    ranks = torch.zeros(size, dtype=torch.int64)
    ranks[rank] = ME + 1
    dist.all_reduce(ranks)
    assert sorted(ranks.tolist()) == [member + 1 for member in members], ranks
    say(f"rank {rank} of {size} has the weights of one process after {steps.stop} steps")


def meet(store, uuid, members):
    """The handles of all members, by process."""
    store.set(f"{uuid}/{ME}", dist.distributed_c10d._get_reconfigure_handle())
    return [store.get(f"{uuid}/{member}").decode() for member in members]


def reconfigure(uuid, handles, timeout=None):
    dist.distributed_c10d._reconfigure(uuid, handles, timeout=timeout).wait()


def fails_with(text, run):
    before = time.monotonic()
    try:
        run()
    except RuntimeError as error:  # DistBackendError is one
        assert text in str(error), f"{error}: no '{text}' in it"
        return time.monotonic() - before, str(error)
    raise AssertionError(f"no error: '{text}' was wanted")


def names_missing(uuid, handles, text):
    seconds, error = fails_with(text, lambda: reconfigure(uuid, handles, datetime.timedelta(seconds=SECONDS)))
    assert seconds < SECONDS + 2, seconds
    say(f"knew after {seconds:.1f} s: {error}")
    fails_with(text, lambda: dist.all_reduce(torch.ones(1)))  # until a group is made


def main():
    store, _, _ = next(dist.rendezvous("env://"))
    # What it has for rank and size says nothing of the groups.
    dist.init_process_group("lockstep", store=store, rank=0, world_size=1, enable_reconfigure=True,
                            timeout=datetime.timedelta(seconds=60))
    model, alone, joins = new_model(), new_model(), ME == 3
    if not joins:
        fails_with("no members yet", lambda: dist.all_reduce(torch.ones(1)))
        handles = meet(store, 1, [0, 1, 2])
        reconfigure(1, [handles[1], handles[2], handles[0]])
        assert dist.get_rank() == [2, 0, 1][ME]
        train_together(model, alone, 0, [0, 1, 2])
        if ME == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        pending = dist.irecv(torch.ones(1), src=1 if ME == 0 else 2)
        seconds, error = fails_with("rank 0", lambda: dist.all_reduce(torch.ones(1)))
        say(f"knew after {1000 * seconds:.0f} ms: {error}")
        reconfigure(2, set(meet(store, 2, [0, 2])))
        fails_with("rank 0", pending.wait)
        train_together(model, alone, STEPS, [0, 2])
    else:
        train(alone, range(STEPS), [0, 1, 2])
        train(alone, range(STEPS, 2 * STEPS), [0, 2])
    if ME == 0:
        new = subprocess.Popen([sys.executable, *sys.argv], env=os.environ | {"NEW_PROCESS": "3", "RANK": "1"})
    # The group of two is in good order, and an operation under way fails.
    pending = None if joins else dist.irecv(torch.ones(1), src=1 - dist.get_rank())
    reconfigure(3, set(meet(store, 3, [0, 2, 3])))
    if pending:
        fails_with("the process group was reconfigured", pending.wait)
    assert not joins or dist.get_rank() == 2, "the oldest members come first"
    train_together(model, alone, 2 * STEPS, [0, 2, 3])
    handles = meet(store, 4, [0, 2, 3])
    if joins:
        store.wait(["done"])
        os._exit(0)
    names_missing(4, handles, "rank 2")  # process 3 does not come
    names_missing(5, [store.get("1/1").decode(), handles[0], handles[1]], "rank 0")  # process 1 is dead
    reconfigure(6, handles[:2])
    train_together(model, alone, 3 * STEPS, [0, 2])
    store.set("done", "")
    if ME == 0:
        assert new.wait() == 0
    dist.destroy_process_group()
    say("has ended in good order")


main()
