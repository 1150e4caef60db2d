#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares every operation of lockstep_torch with Gloo's, on the same tensors, with any number of ranks.

  mpirun -n 3 python3 tests/bindings/torch_test.py
  torchrun --nproc-per-node 3 tests/bindings/torch_test.py [cpu:lockstep]

The argument is what init_process_group gets.
"""
import functools
import sys
import time
import warnings

import lockstep_torch  # noqa: F401  (PyTorch before 2.5 does not load it by itself)
import torch
import torch.distributed as dist

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]

COMPUTED = {"SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum,
            "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}


def tensor(shape, dtype, salt=0, rank=None):
    """Other numbers on each rank, small ones, so that sums and products are exact in every order."""
    generator = torch.Generator().manual_seed(1000 * salt + (RANK if rank is None else rank))
    numbers = torch.randint(0, 4, shape, generator=generator)
    return numbers > 1 if dtype == torch.bool else numbers.to(dtype)


def both(run):
    """Runs an operation by both back ends, each with tensors of its own."""
    return run(None), run(GLOO)


def equal(what, run):
    ours, theirs = both(run)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b), f"rank {dist.get_rank()}: {what}: {a} instead of {b}"


def reductions():
    operators = {"SUM": FLOATS + INTEGERS, "PRODUCT": FLOATS + INTEGERS, "MIN": FLOATS + INTEGERS, "MAX": FLOATS + INTEGERS,
                 "BAND": INTEGERS, "BOR": INTEGERS, "BXOR": INTEGERS}
    for name, dtypes in operators.items():
        op = getattr(dist.ReduceOp, name)
        for dtype in dtypes:
            if dtype == torch.int16:  # Gloo has none
                numbers = [tensor((5, 7), dtype, rank=rank) for rank in range(SIZE)]
                values = numbers[RANK].clone()
                dist.all_reduce(values, op)
                assert torch.equal(values, functools.reduce(COMPUTED[name], numbers)), (name, values)
                continue

            def all_reduce(group, dtype=dtype, op=op):
                values = tensor((5, 7), dtype)
                dist.all_reduce(values, op, group=group)
                return [values]

            def reduce(group, dtype=dtype, op=op):
                values = tensor((5, 7), dtype)
                dist.reduce(values, dst=SIZE - 1, op=op, group=group)
                return [values] if RANK == SIZE - 1 else []
            equal(f"all_reduce {name} {dtype}", all_reduce)
            equal(f"reduce {name} {dtype}", reduce)
    values = torch.full((3,), float(RANK))
    dist.all_reduce(values, dist.ReduceOp.AVG)
    assert torch.equal(values, torch.full((3,), (SIZE - 1) / 2)), values
    flags = torch.tensor([RANK == 0, True, False])
    dist.all_reduce(flags, dist.ReduceOp.MAX)
    assert flags.tolist() == [True, True, False], flags
    for dtype in (torch.complex64, torch.complex128):
        for op, divisor in ((dist.ReduceOp.SUM, 1), (dist.ReduceOp.AVG, SIZE)):
            values = torch.full((2,), complex(1, RANK), dtype=dtype)
            dist.all_reduce(values, op)
            assert torch.equal(values, torch.full((2,), complex(SIZE, SIZE * (SIZE - 1) / 2) / divisor, dtype=dtype)), values
    unsigned = torch.tensor([RANK, 65535 - RANK]).to(torch.uint16)  # the second numbers are negative ones of int16
    dist.all_reduce(unsigned, dist.ReduceOp.MIN)
    assert unsigned.tolist() == [0, 65536 - SIZE], unsigned


def scattered_tensors():
    """Tensors that are not contiguous. Gloo takes their memory as it lies."""
    turned = tensor((6, 4), torch.float32).t()
    dist.all_reduce(turned)
    wanted = sum(tensor((6, 4), torch.float32, rank=rank) for rank in range(SIZE)).t()
    assert torch.equal(turned, wanted), (turned, wanted)
    whole = tensor((6, 4), torch.int64)
    dist.broadcast(whole[:, ::2], SIZE - 1)
    assert torch.equal(whole[:, ::2], tensor((6, 4), torch.int64, rank=SIZE - 1)[:, ::2]), whole
    assert torch.equal(whole[:, 1::2], tensor((6, 4), torch.int64)[:, 1::2]), whole
    part = torch.zeros(SIZE, 3, 2)
    dist.all_gather([part[rank].t() for rank in range(SIZE)], tensor((2, 3), torch.float32))
    for rank in range(SIZE):
        assert torch.equal(part[rank].t(), tensor((2, 3), torch.float32, rank=rank)), part


def movements():
    for dtype in [*FLOATS, *INTEGERS, torch.bool, torch.complex64]:
        def broadcast(group, dtype=dtype):
            values = tensor((3, 2), dtype)
            dist.broadcast(values, SIZE - 1, group=group)
            return [values]

        def all_gather(group, dtype=dtype):
            parts = [torch.empty(3, dtype=dtype) for _ in range(SIZE)]
            dist.all_gather(parts, tensor((3,), dtype), group=group)
            return parts
        if dtype not in (torch.int16, torch.bfloat16, torch.bool, torch.complex64):  # Gloo lacks these
            equal(f"broadcast {dtype}", broadcast)
            equal(f"all_gather {dtype}", all_gather)
        else:
            broadcast(None)
            all_gather(None)

    def into_tensor(group):
        whole = torch.empty(SIZE * 3)
        dist.all_gather_into_tensor(whole, tensor((3,), torch.float32), group=group)
        return [whole]

    def gather(group):
        parts = [torch.empty(2, 2) for _ in range(SIZE)] if RANK == 0 else None
        dist.gather(tensor((2, 2), torch.float32), parts, dst=0, group=group)
        return parts or []

    def scatter(group):
        parts = [tensor((4,), torch.float64, salt) for salt in range(SIZE)] if RANK == 0 else None
        part = torch.empty(4, dtype=torch.float64)
        dist.scatter(part, parts, src=0, group=group)
        return [part]

    def all_to_all(group):
        whole = torch.empty(SIZE * 2)
        dist.all_to_all_single(whole, tensor((SIZE * 2,), torch.float32), group=group)
        return [whole]

    def uneven_all_to_all(group):
        sent, received = [rank + 1 for rank in range(SIZE)], [RANK + 1] * SIZE
        whole = torch.empty(sum(received), 2)
        dist.all_to_all_single(whole, tensor((sum(sent), 2), torch.float32), received, sent, group=group)
        return [whole]
    for name, run in [("all_gather_into_tensor", into_tensor), ("gather", gather), ("scatter", scatter),
                      ("all_to_all_single", all_to_all), ("all_to_all_single of uneven parts", uneven_all_to_all)]:
        equal(name, run)
    # Gloo has none of the following.
    part = torch.empty(3)
    dist.reduce_scatter_tensor(part, torch.arange(3.0 * SIZE))
    assert torch.equal(part, SIZE * torch.arange(3.0 * RANK, 3 * RANK + 3)), part
    part = torch.empty(RANK + 1)
    dist.reduce_scatter(part, [torch.full((rank + 1,), float(rank)) for rank in range(SIZE)])
    assert torch.equal(part, torch.full((RANK + 1,), float(RANK * SIZE))), part
    parts = [torch.empty(rank + 1) for rank in range(SIZE)]
    dist.all_to_all(parts, [torch.full((RANK + 1,), float(RANK)) for _ in range(SIZE)])
    assert all(torch.equal(part, torch.full((rank + 1,), float(rank))) for rank, part in enumerate(parts)), parts


def coalesced():
    """Several operations in one call: by PyTorch's functions for lists, and as a back end's calls between start and end."""
    import torch.distributed._functional_collectives as functional
    warnings.simplefilter("ignore", FutureWarning)  # newer versions have other names for some of these

    def inputs(rank):
        return [tensor((2 * SIZE,), torch.float32, salt, rank) for salt in range(3)]
    sums = [sum(numbers) for numbers in zip(*(inputs(rank) for rank in range(SIZE)))]
    rows = [torch.cat(numbers) for numbers in zip(*(inputs(rank) for rank in range(SIZE)))]
    parts = [numbers[2 * RANK:2 * RANK + 2] for numbers in sums]

    def check(what, got, wanted):
        assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True)), f"{what}: {got} instead of {wanted}"
    values = inputs(RANK)
    dist.all_reduce_coalesced(values)
    check("all_reduce_coalesced", values, sums)
    check("functional all-reduces", functional.all_reduce_coalesced(inputs(RANK), "sum", dist.group.WORLD), sums)
    check("functional all-gathers", functional.all_gather_into_tensor_coalesced(inputs(RANK), dist.group.WORLD), rows)
    check("functional reduce-scatters",
          functional.reduce_scatter_tensor_coalesced(inputs(RANK), "sum", [0] * 3, dist.group.WORLD), parts)
    for device in (None, torch.device("cpu")):
        values, gathered, scattered = inputs(RANK), [torch.empty(2 * SIZE * SIZE) for _ in range(3)], [torch.empty(2) for _ in range(3)]
        with dist._coalescing_manager(device=device):
            for each in values:
                dist.all_reduce(each)
        with dist._coalescing_manager(device=device, async_ops=True) as manager:
            for to, each in zip(gathered, inputs(RANK)):
                dist.all_gather_into_tensor(to, each)
        manager.wait()
        with dist._coalescing_manager(device=device, async_ops=True) as manager:
            for to, each in zip(scattered, inputs(RANK)):
                dist.reduce_scatter_tensor(to, each)
        manager.wait()
        check(f"coalesced all_reduce, {device}", values, sums)
        check(f"coalesced all_gather_into_tensor, {device}", gathered, rows)
        check(f"coalesced reduce_scatter_tensor, {device}", scattered, parts)


def messages():
    to, source = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    got = torch.empty(2, dtype=torch.int64)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.tensor([RANK, 7]), to), dist.P2POp(dist.irecv, got, source)])
    for work in works:
        work.wait()
    assert got.tolist() == [source, 7], got
    objects = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK, "text": "ä" * (RANK + 1)})
    assert [each["rank"] for each in objects] == list(range(SIZE)), objects
    one = [{"root": 5}] if RANK == 0 else [None]
    dist.broadcast_object_list(one, src=0)
    assert one == [{"root": 5}], one
    dist.barrier()
    dist.monitored_barrier()


def order():
    """Messages end in any order, and callbacks of futures may wait for operations."""
    if SIZE == 3:
        got = torch.empty(2)
        if RANK == 0:
            late, early = dist.irecv(got[:1], 1), dist.irecv(got[1:], 2)
            early.wait()
            dist.send(torch.zeros(1), 1)  # makes rank 1 send
            late.wait()
            assert got.tolist() == [1, 2], got
        elif RANK == 1:
            dist.recv(got[:1], 0)
        if RANK > 0:
            dist.send(torch.tensor([float(RANK)]), 0)

    def all_reduce_again(future):
        values = future.value()[0].clone()
        dist.all_reduce(values)
        return values
    values = dist.all_reduce(torch.ones(4), async_op=True).get_future().then(all_reduce_again).wait()
    assert torch.equal(values, torch.full((4,), float(SIZE * SIZE))), values


def groups():
    half = list(range(0, SIZE, 2))
    group = dist.new_group(half, backend="lockstep")
    if RANK in half:
        values = torch.ones(4)
        dist.all_reduce(values, group=group)
        assert torch.equal(values, torch.full((4,), float(len(half)))), values
    if dist.group.WORLD._get_backend(torch.device("cpu")).supports_splitting:
        under_way = dist.all_reduce(torch.ones(1000), async_op=True)
        turned = half[::-1]
        group = dist.split_group(split_ranks=[turned, list(range(1, SIZE, 2))] if SIZE > 1 else [turned])
        mine = turned if RANK in half else list(range(1, SIZE, 2))
        assert dist.get_process_group_ranks(group) == mine and group.rank() == mine.index(RANK), (mine, group.rank())
        values = torch.full((4,), float(RANK))
        dist.all_reduce(values, group=group)
        assert torch.equal(values, torch.full((4,), float(sum(mine)))), values
        under_way.wait()
        alone = dist.split_group(split_ranks=[[0]])
        assert (alone == dist.GroupMember.NON_GROUP_MEMBER) == (RANK > 0), alone
    works = [dist.all_reduce(torch.full((1000,), float(k)), async_op=True) for k in range(20)]
    futures = [work.get_future() for work in works]
    for k, future in enumerate(futures):
        assert torch.equal(future.wait()[0], torch.full((1000,), float(k * SIZE)))


def training():
    """The same weights as by Gloo, bit for bit where two ranks add two numbers."""
    def weights(group):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.ReLU(), torch.nn.Linear(50, 3))
        parallel = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
        optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1, momentum=0.9)
        for step in range(10):
            torch.manual_seed(100 * step + RANK)
            loss = torch.nn.functional.cross_entropy(parallel(torch.randn(8, 20)), torch.randint(0, 3, (8,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]
    ours, theirs = both(weights)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b) if SIZE <= 2 else torch.allclose(a, b, atol=1e-6), (a - b).abs().max()


def waiting():
    """A rank that waits for another one leaves the processor to others."""
    if SIZE == 1:
        return
    for wait in (lambda work: work.wait(), lambda work: work.get_future().wait()):
        dist.barrier()
        if RANK == SIZE - 1:
            time.sleep(2)
        begin, before = time.monotonic(), time.process_time()  # of all threads
        wait(dist.all_reduce(torch.ones(4), async_op=True))
        if RANK != SIZE - 1:
            waited, computed = time.monotonic() - begin, time.process_time() - before
            assert waited > 1 and computed < waited / 2, f"{computed} s of processor time in {waited} s"


def mistakes():
    try:
        dist.all_reduce(torch.zeros(3), dist.ReduceOp.BAND)
    except Exception as error:  # noqa: BLE001  whichever type PyTorch makes of it
        assert "float32" in str(error), error
    else:
        raise AssertionError("a bitwise operator on float32 was taken")
    dist.barrier()  # nothing was sent


dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "lockstep")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
GLOO = dist.new_group(backend="gloo")
for part in (reductions, scattered_tensors, movements, coalesced, messages, order, groups, training, waiting, mistakes):
    part()
    if RANK == 0:
        print(part.__name__, "passed", flush=True)
dist.destroy_process_group()
sys.exit(0)
