#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a model with PyTorch and measures images per second. Several ranks are DistributedDataParallel over Gloo, or over
NCCL with --device cuda; one is without. Rank 0 prints one JSON line. compare-ddp.sh and compare_gpu.py start it:

  python3 -m torch.distributed.run --standalone --nproc_per_node 2 ddp_baseline.py --model lenet --batch 128 ...

Every rank has its random images in its device's memory before the first step, so that the figure is without data loading.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
import lockstep_models  # noqa: E402  pylint: disable=wrong-import-position

IMAGES = {"lenet": (1, 28, 28), "resnet50": (3, 224, 224), "unet": (3, 256, 256), "pp-liteseg": (3, 256, 256),
          "crnn-mv3": (3, 32, 128)}  # the others: CIFAR-10's
CLASSES = {"resnet50": 1000, "unet": 2, "pp-liteseg": 2, "crnn-mv3": 36}  # the others: 10
LETTERS = 8  # of a line of text, at most
BATCHES = {"resnet50": 2, "unet": 4, "pp-liteseg": 4}  # memory; the others: 16
# What lockstep uses for the model, but a constant rate at which random labels do no harm.
DECAYED = {"momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["lenet", "resnet20", "resnet18", "resnet50", "mobilenet-v2", "unet", "pp-liteseg", "crnn-mv3"],
                        required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--batch", type=int, default=128, help="total over all ranks")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--window", type=int, required=True, help="steps of one measurement")
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--channels-last", action="store_true", help="images and weights with the channels innermost")
    parser.add_argument("--compile", nargs="?", const="default", metavar="MODE", help="torch.compile, in this mode")
    parser.add_argument("--precision", choices=["float32", "bf16"], default="float32", help="bf16: by autocast")
    parser.add_argument("--bind", choices=["core", "none"], default="none", help="core: a core for each rank")
    return parser.parse_args()


def cpu_list(text):
    """The processors that Linux writes as 0-3,8."""
    ends = [part.split("-") for part in text.strip().split(",")]
    return {cpu for part in ends for cpu in range(int(part[0]), int(part[-1]) + 1)}


def bind_to_core(index):
    """What mpirun --bind-to core does: all hardware threads of the index-th core that this process may use."""
    allowed = os.sched_getaffinity(0)
    siblings = [pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in allowed]
    cores = sorted({tuple(sorted(cpu_list(file.read_text()) & allowed)) for file in siblings})
    if index >= len(cores):
        raise SystemExit(f"local rank {index} has no core of its own: there are {len(cores)}; use --bind none")
    os.sched_setaffinity(0, cores[index])


def loss_of(name):
    """A function of a model and a batch."""
    if name not in ("unet", "pp-liteseg", "crnn-mv3"):
        return lambda model, batch: F.cross_entropy(model(batch["images"]), batch["labels"])
    import torch_models  # pylint: disable=import-outside-toplevel  # it needs numpy, which machines with GPUs may lack
    return torch_models.LOSSES[name]


class Loss(nn.Module):
    """The loss of a model on a batch, in one forward, which is what DistributedDataParallel and torch.compile look at."""

    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch):
        return self.loss(self.model, batch)


def make_model(arguments, image, classes, layout):
    torch.manual_seed(1)
    model = lockstep_models.MODELS[arguments.model]({"images": image}, classes)
    model = Loss(model, loss_of(arguments.model)).to(arguments.device, memory_format=layout)
    if dist.get_world_size() > 1:  # alone, there is nobody to add up with
        model = DistributedDataParallel(model)
    return torch.compile(model, mode=arguments.compile) if arguments.compile else model


def make_targets(model, samples, image, classes):
    if model in ("unet", "pp-liteseg"):
        return {"labels": torch.randint(classes, (samples, 1, *image[1:]))}
    if model == "crnn-mv3":
        return {"targets": torch.randint(1, classes + 1, (samples, 1, 1, LETTERS)),
                "target_lengths": torch.randint(1, LETTERS + 1, (samples, 1))}
    return {"labels": torch.randint(classes, (samples,))}


def make_step(arguments, rank):
    """A function that trains on the batch of a step number and returns the loss."""
    image, classes = IMAGES.get(arguments.model, (3, 32, 32)), CLASSES.get(arguments.model, 10)
    layout = torch.channels_last if arguments.channels_last else torch.contiguous_format
    model = make_model(arguments, image, classes, layout)
    decayed = {"momentum": 0.9} if arguments.model == "lenet" else DECAYED
    sgd = torch.optim.SGD(model.parameters(), lr=0.01, **decayed)
    torch.manual_seed(2 + rank)
    share = arguments.batch // dist.get_world_size()
    batches = [{"images": torch.randn(share, *image).to(arguments.device, memory_format=layout)}
               | {name: targets.to(arguments.device) for name, targets in make_targets(arguments.model, share, image, classes).items()}
               for _ in range(BATCHES.get(arguments.model, 16))]

    def step(number):
        sgd.zero_grad()
        with torch.autocast(arguments.device, dtype=torch.bfloat16, enabled=arguments.precision == "bf16"):
            loss = model(batches[number % len(batches)])
        loss.backward()
        sgd.step()
        return loss

    return step


def measure(step, arguments):
    """Images per second, over all ranks, of each window."""
    rates = []
    for first in range(0, arguments.steps - arguments.window + 1, arguments.window):
        begin = time.perf_counter()
        for number in range(first, first + arguments.window):
            loss = step(number)
        if arguments.device == "cuda":
            torch.cuda.synchronize()
        rates.append(arguments.window * arguments.batch / (time.perf_counter() - begin))
        if not torch.isfinite(loss):
            raise SystemExit(f"the loss is {loss.item()} after step {first + arguments.window}")
    return rates


def main():
    arguments = parse_arguments()
    if arguments.bind == "core":
        bind_to_core(int(os.environ["LOCAL_RANK"]))
    torch.set_num_threads(arguments.threads)
    if arguments.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.backends.cudnn.benchmark = True  # PyTorch's fastest convolutions, as lockstep measures its own
    dist.init_process_group("nccl" if arguments.device == "cuda" else "gloo")
    rates = measure(make_step(arguments, dist.get_rank()), arguments)
    if dist.get_rank() == 0:
        print(json.dumps({"model": arguments.model, "torch": torch.__version__, "ranks": dist.get_world_size(),
                          "threads": arguments.threads, "channels_last": arguments.channels_last,
                          "compile": arguments.compile, "precision": arguments.precision, "batch": arguments.batch,
                          "peak_bytes": torch.cuda.max_memory_allocated() if arguments.device == "cuda" else None,
                          "images_per_second": statistics.median(rates), "windows": rates}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
