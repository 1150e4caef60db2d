#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of torch-ddp.sh: the models of torch_ddp.cpp, by DistributedDataParallel over Gloo.

  torch_ddp.py data FOLDER                  writes batches of two ranks, and initial weights
  torch_ddp.py train MODEL FOLDER           50 steps on them, under torch.distributed.run; writes weights there
  torch_ddp.py compare MODEL FOLDER BOUND   fails if lockstep's weights and PyTorch's differ by more
  torch_ddp.py speed MODEL VIEW             prints steps per second; VIEW: yes with gradient_as_bucket_view
"""
import os
import pathlib
import sys
import time

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

STEPS, SHARE = 50, 32


def make_model(name):
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(),
                             nn.Linear(2048, 10))
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3),
                         nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 10))


def make_optimizer(net):
    return torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)


def state(net):
    tensors = [*net.parameters(), *net.buffers()]
    return b"".join(t.detach().numpy().tobytes() for t in tensors if t.dtype == torch.float32)


def write_data(folder):
    torch.manual_seed(1)
    for name in ("cnn", "mlp"):
        parameters = make_model(name).parameters()
        (folder / f"{name}.initial").write_bytes(b"".join(p.detach().numpy().tobytes() for p in parameters))
    for rank in range(2):
        with open(folder / f"batches.{rank}", "wb") as file:
            for _ in range(STEPS):
                file.write(torch.randn(SHARE, 1, 28, 28).numpy().tobytes())
                file.write(torch.randint(10, (SHARE,)).numpy().tobytes())


def train(name, folder):
    rank = dist.get_rank()
    net = make_model(name)
    with open(folder / f"{name}.initial", "rb") as file, torch.no_grad():
        for parameter in net.parameters():
            values = numpy.frombuffer(file.read(4 * parameter.numel()), dtype=numpy.float32).copy()
            parameter.copy_(torch.from_numpy(values).view_as(parameter))
    model = DistributedDataParallel(net)
    optimizer = make_optimizer(net)
    with open(folder / f"batches.{rank}", "rb") as batches, open(folder / f"{name}.pytorch.{rank}", "wb") as out:
        for step in range(1, STEPS + 1):
            images = torch.frombuffer(bytearray(batches.read(4 * SHARE * 784)), dtype=torch.float32)
            labels = torch.frombuffer(bytearray(batches.read(8 * SHARE)), dtype=torch.int64)
            optimizer.zero_grad()
            F.cross_entropy(model(images.view(SHARE, 1, 28, 28)), labels).backward()
            optimizer.step()
            if step % 10 == 0:
                out.write(state(net))


def compare(name, folder, bound):
    # Running statistics come last; PyTorch's are rank 0's on other ranks only before the next forward.
    parameters = sum(p.numel() for p in make_model(name).parameters())
    size = len(state(make_model(name))) // 4
    worst = 0.0
    for rank in range(2):
        ours, theirs = (numpy.fromfile(folder / f"{name}.{which}.{rank}", dtype=numpy.float32).reshape(-1, size)
                        for which in ("lockstep", "pytorch"))
        if len(ours) != STEPS // 10 or len(theirs) != STEPS // 10:
            raise SystemExit(f"{name}: {len(ours)} and {len(theirs)} records of {STEPS // 10}")
        compared = size if rank == 0 else parameters
        difference = numpy.abs(ours[:, :compared] - theirs[:, :compared])
        if not numpy.isfinite(difference).all():
            raise SystemExit(f"{name}: weights that are no numbers")
        if numpy.array_equal(theirs[0], theirs[-1]):
            raise SystemExit(f"{name}: PyTorch's weights do not change")
        worst = max(worst, float(difference.max()))
    print(f"{name}: {parameters} weights after 10, 20 … {STEPS} steps differ by {worst:.1e} at most")
    if worst > bound:
        raise SystemExit(f"{name}: that is more than {bound}")


def speed(name, view):
    window = 5 if name == "mlp" else 100
    net = make_model(name)
    model = DistributedDataParallel(net, gradient_as_bucket_view=view)
    optimizer = make_optimizer(net)
    torch.manual_seed(dist.get_rank() + 1)
    images = torch.randn(16, 32, 1, 28, 28)
    labels = torch.randint(10, (16, 32))
    rates = []
    for number in range(10):
        begin = time.perf_counter()
        for i in range(window):
            optimizer.zero_grad()
            F.cross_entropy(model(images[i % 16]), labels[i % 16]).backward()
            optimizer.step()
        if number > 0:
            rates.append(window / (time.perf_counter() - begin))
    if dist.get_rank() == 0:
        print(f"{sorted(rates)[len(rates) // 2]:.3f}", flush=True)


def main():
    mode, *arguments = sys.argv[1:]
    torch.set_num_threads(1)
    if mode == "data":
        return write_data(pathlib.Path(arguments[0]))
    if mode == "compare":
        return compare(arguments[0], pathlib.Path(arguments[1]), float(arguments[2]))
    dist.init_process_group("gloo")
    if mode == "train":
        train(arguments[0], pathlib.Path(arguments[1]))
    else:
        speed(arguments[0], arguments[1] == "yes")
    dist.barrier()
    dist.destroy_process_group()
    # PyTorch 2.15 aborts now and then when the interpreter destroys a thread of Gloo's that is still running.
    os._exit(0)


if __name__ == "__main__":
    main()
