#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares lockstep_torch with Gloo through torch.distributed, in turn, on the ranks that a launcher has started. Where lockstep
says so, its tensor is in memory that the ranks of a node share, as DistributedDataParallel allocates it for its buckets with
DDP_DISABLE_COMM_MEM=0.

  mpirun -n 2 python3 mpi-scripts/bench/c10d.py [--seconds N]
  PER_HOST=1 mpi-scripts/local-cluster.sh run mpi-scripts/parity/torchrun-on-hosts.sh python3 mpi-scripts/bench/c10d.py

Prints a Markdown table: the microseconds of an all-reduce by size, and the milliseconds of a DistributedDataParallel step of a
multilayer perceptron of 5.8 million parameters, and of torchvision's ResNet-18 with four pictures of 64×64, where torchvision is. Each figure is the median of rounds that alternate between the two; a ratio
is that of the medians. With OMP_NUM_THREADS=1 on machines with as many cores as ranks.
"""
import argparse
import statistics
import time

import lockstep_torch  # noqa: F401
import torch
import torch.distributed as dist

try:
    import torchvision
except ImportError:
    torchvision = None

SIZES = [4, 256, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
ROUNDS = 9


def timed(run, calls):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - begin) / calls


def in_turn(runs, seconds):
    """The median seconds of each run, which take turns; the same numbers of calls on all ranks."""
    for run in runs:
        run()
    slowest = torch.tensor([max(timed(run, 1) for run in runs)])
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    calls = max(1, int(seconds / (ROUNDS * len(runs)) / slowest.item()))
    rounds = [[timed(run, calls) for run in runs] for _ in range(ROUNDS)]
    return [statistics.median(column) for column in zip(*rounds)]


def row(name, unit, seconds):
    if dist.get_rank() == 0:
        ours, gloo = seconds
        print(f"| {name} | {ours * unit:,.1f} | {gloo * unit:,.1f} | {gloo / ours:.2f} |", flush=True)


def perceptron():
    layers = [torch.nn.Linear(1024, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 1536), torch.nn.ReLU(), torch.nn.Linear(1536, 384)]
    return torch.nn.Sequential(*layers)


def step_of(make_model, inputs, group):
    torch.manual_seed(1)
    parallel = torch.nn.parallel.DistributedDataParallel(make_model(), process_group=group)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01, momentum=0.9)
    labels = torch.randint(0, 384, (len(inputs),))

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(parallel(inputs), labels).backward()
        optimizer.step()
    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3, help="for each size")
    options = parser.parse_args()
    dist.init_process_group("lockstep")
    groups = [None, dist.new_group(backend="gloo")]
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks, PyTorch {torch.__version__}, {torch.get_num_threads()} threads each\n\n"
              "| | lockstep | Gloo | times |\n|---|---|---|---|")
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    for size in SIZES:
        plain = torch.zeros(size // 4)
        shared = backend.allocate_tensor(size // 4, dtype=torch.float32, device=torch.device("cpu"))
        for name, ours in (("", plain), (", shared", shared)):
            row(f"all-reduce of {size:,} B{name}, µs", 1e6, in_turn(
                [lambda ours=ours: dist.all_reduce(ours), lambda: dist.all_reduce(plain, group=groups[1])], options.seconds))
    models = [("the perceptron", perceptron, torch.randn(32, 1024))]
    if torchvision is not None:
        models.append(("ResNet-18", torchvision.models.resnet18, torch.randn(4, 3, 64, 64)))
    for name, make_model, inputs in models:
        row(f"step of {name}, ms", 1e3, in_turn([step_of(make_model, inputs, group) for group in groups], options.seconds))
    dist.destroy_process_group()


main()
