#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of cifar10.sh and of bench/time-to-accuracy.sh.

  cifar10-pytorch.py train RUN DATA SEED LOG [--ranks N] [--threads N]
                                                trains by the recipe of lockstep's run in the folder RUN, with the random numbers of PyTorch,
                                                and goes on from the last complete epoch of a run that was cut, whose state is beside LOG;
                                                DATA has JPEGs in train/CLASS and test/CLASS, or MNIST's files
  cifar10-pytorch.py table LOGS [--csv FILE] [--least X] [--within X]   prints the accuracies in the logs of the folder LOGS, and checks them

The recipe is read from the run's options.conf and the normalization from its checkpoint. The processes take turns with the samples and
average their gradients (DistributedDataParallel over Gloo), so batch norm sees as many samples at once as in lockstep. Crops and flips
are those of torchvision's RandomCrop(32, padding=4) and RandomHorizontalFlip(), drawn for a whole batch. The format channels_last and
the fused optimizer are PyTorch's fastest way on a CPU; torch.compile was no faster for this network.
"""
import argparse
import csv
import gzip
import json
import os
import pathlib
import statistics
import sys
import time

BORDER = 4


def options_of(run):
    lines = (pathlib.Path(run) / "options.conf").read_text().splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}


def pictures_of(folder):
    """All pictures as uint8 N×3×32×32, and their labels."""
    import torch
    import torchvision

    data = torchvision.datasets.ImageFolder(str(folder))
    pixels = torch.stack([torchvision.transforms.functional.pil_to_tensor(data[i][0]) for i in range(len(data))])
    return pixels, torch.tensor(data.targets)


def mnist_of(folder, part):
    """MNIST's images as uint8 N×1×28×28, and their labels."""
    import torch

    def numbers(kind, head):
        with gzip.open(folder / f"{part}-{kind}-ubyte.gz") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=head)

    return numbers("images-idx3", 16).view(-1, 1, 28, 28), numbers("labels-idx1", 8).long()


def data_of(options, folder):
    """Images and labels for training, then those for tests."""
    if options.get("dataset") == "mnist":
        return *mnist_of(folder, "train"), *mnist_of(folder, "t10k")
    return *pictures_of(folder / "train"), *pictures_of(folder / "test")


def cropped_and_flipped(pixels, generator):
    import torch
    from torch.nn import functional

    count, _, height, width = pixels.shape
    padded = functional.pad(pixels, [BORDER] * 4)
    top, left = (torch.randint(2 * BORDER + 1, (count, 1), generator=generator) for _ in range(2))
    is_flipped = torch.rand(count, 1, generator=generator) < 0.5
    rows = top + torch.arange(height)
    columns = left + torch.where(is_flipped, torch.arange(width - 1, -1, -1), torch.arange(width))
    return padded[torch.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def schedule_of(optimizer, options, steps, steps_of_epoch):
    """As learning-rates-pytorch.py: the cosine takes the steps that the warm-up leaves."""
    from torch.optim import lr_scheduler

    assert options["lr-schedule"] == "cosine", options["lr-schedule"]
    warmup = round(float(options["warmup"]) * steps_of_epoch)
    cosine = lr_scheduler.CosineAnnealingLR(optimizer, steps - warmup)
    if warmup == 0:
        return cosine
    linear = lr_scheduler.LinearLR(optimizer, start_factor=1 / (warmup + 1), total_iters=warmup)
    return lr_scheduler.SequentialLR(optimizer, [linear, cosine], [warmup])


def decayed(network, options):
    """The parameters with the decay of their group: --decay-vectors=no leaves out biases and those of batch norm."""
    decay = float(options["weight-decay"])
    vectors = decay if options["decay-vectors"] == "yes" else 0.0
    return [{"params": [p for p in network.parameters() if p.ndim > 1], "weight_decay": decay},
            {"params": [p for p in network.parameters() if p.ndim <= 1], "weight_decay": vectors}]


class Progress:
    """The log of the first process, as the file of train --metrics, and the state after each epoch, from which a run that was cut goes on."""

    def __init__(self, path, recipe, parts, generators):
        self.path, self.recipe, self.parts, self.generators, self.lines = pathlib.Path(path), recipe, parts, generators, []
        self.epochs = 0

    @property
    def state_path(self):
        return self.path.with_suffix(".pt")

    def restore(self, rank):
        import torch

        if self.state_path.exists():
            state = torch.load(self.state_path, weights_only=True)
            if state["recipe"] != self.recipe:
                sys.exit(f"error: {self.state_path} is the state of another recipe: remove it")
            for part, values in zip(self.parts, state["parts"], strict=True):
                part.load_state_dict(values)
            for generator, values in zip(self.generators, state["generators"][rank], strict=True):
                generator.set_state(values)
            self.lines, self.epochs = state["lines"], state["epochs"]

    def add(self, rank, event, **values):
        if rank == 0:
            self.lines.append(json.dumps({"event": event, **values}, separators=(",", ":")))
            self.path.write_text("".join(line + "\n" for line in self.lines), encoding="utf-8")
            print(event, values, flush=True)

    def save(self, rank):
        import torch
        import torch.distributed as dist

        self.epochs += 1
        generators = [None] * dist.get_world_size()
        dist.all_gather_object(generators, [generator.get_state() for generator in self.generators])
        if rank == 0:
            unfinished = self.state_path.with_suffix(".new")
            torch.save({"parts": [part.state_dict() for part in self.parts], "generators": generators, "lines": self.lines,
                        "recipe": self.recipe, "epochs": self.epochs}, unfinished)
            unfinished.replace(self.state_path)


def evaluate(model, normalize, pixels, labels):
    """This process's share, without copies of samples."""
    import torch
    import torch.distributed as dist

    model.eval()
    right = torch.zeros((), dtype=torch.int64)
    with torch.no_grad():
        for begin in range(dist.get_rank() * 256, len(pixels), dist.get_world_size() * 256):
            part = slice(begin, begin + 256)
            right += (model(normalize(pixels[part])).argmax(1) == labels[part]).sum()
    dist.all_reduce(right)
    model.train()
    return right.item() / len(pixels)


def work(rank, run, folder, seed, path, ranks, threads):
    import torch
    import torch.distributed as dist
    from torch.nn import functional
    from torch.nn.parallel import DistributedDataParallel

    import lockstep_models

    torch.set_num_threads(threads)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    options = options_of(run)
    _, about = lockstep_models.load(pathlib.Path(run) / "checkpoints/last")
    train, train_labels, test, test_labels = data_of(options, pathlib.Path(folder))

    def normalize(pixels):
        return lockstep_models.normalized(pixels.float() / 255, about)

    torch.manual_seed(seed)
    network = lockstep_models.MODELS[options["model"]](about["inputs"], about["classes"], about["stem"])
    network = network.to(memory_format=torch.channels_last)
    model = DistributedDataParallel(network) if ranks > 1 else network
    optimizer = torch.optim.SGD(decayed(network, options), lr=float(options["lr"]), momentum=float(options["momentum"]),
                                nesterov=options["nesterov"] == "yes",
                                fused=True)
    smoothing = 0.0 if options["label-smoothing"] == "off" else float(options["label-smoothing"])
    batch, epochs = int(options["batch"]), int(options["epochs"])
    recipe = {name: value for name, value in options.items() if name not in ("save-dir", "seed", "data", "steps", "eval-interval")}
    steps_of_epoch = -(-len(train) // batch)
    schedule = schedule_of(optimizer, options, epochs * steps_of_epoch, steps_of_epoch)
    changed = {"crop,flip": cropped_and_flipped, "none": lambda pixels, _: pixels}[options["augment"]]
    order = torch.Generator().manual_seed(seed)  # the same on both processes
    changes = torch.Generator().manual_seed(2 * seed + 1000 + rank)
    progress = Progress(path, recipe, (network, optimizer, schedule), (order, changes))
    progress.restore(rank)
    if progress.epochs == 0:
        progress.add(rank, "start", torch=torch.__version__, seed=seed, samples=len(train))
    for epoch in range(progress.epochs, epochs):
        begin, losses = time.perf_counter(), 0.0
        permutation = torch.randperm(len(train), generator=order)
        for step in range(steps_of_epoch):
            mine = permutation[step * batch:(step + 1) * batch][rank::ranks]
            optimizer.zero_grad()
            images = normalize(changed(train[mine], changes))
            loss = functional.cross_entropy(model(images), train_labels[mine], label_smoothing=smoothing)
            loss.backward()
            optimizer.step()
            schedule.step()
            losses += loss.item()
        seconds = time.perf_counter() - begin
        accuracy = evaluate(network, normalize, test, test_labels)
        progress.add(rank, "epoch", epoch=epoch + 1, train_loss=losses / steps_of_epoch, val_accuracy=accuracy, seconds=seconds,
                     evaluation_seconds=time.perf_counter() - begin - seconds)
        progress.save(rank)
    progress.add(rank, "end", outcome="completed", final_accuracy=evaluate(network, normalize, test, test_labels))
    dist.destroy_process_group()


def train(run, folder, seed, path, ranks, threads):
    import torch.multiprocessing

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(20000 + os.getpid() % 20000))
    torch.multiprocessing.spawn(work, (run, folder, int(seed), path, ranks, threads), nprocs=ranks)


def accuracies_of(path):
    """The accuracy after each epoch."""
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return [event["val_accuracy"] for event in events if event["event"] == "epoch"]


def table(logs, csv_file, least, within):
    curves = {path.stem: accuracies_of(path) for path in sorted(pathlib.Path(logs).glob("*-*.jsonl"))}
    ends = {}
    for name, curve in curves.items():
        ends.setdefault(name.split("-")[0], []).append(curve[-1])
        print(f"{name:12}{len(curve):4} epochs{curve[-1]:9.2%}")
    means = {name: statistics.mean(values) for name, values in ends.items()}
    difference = means["lockstep"] - means["pytorch"]
    print("mean        " + ", ".join(f"{name} {mean:.2%}" for name, mean in means.items()) + f", difference {100 * difference:+.2f} points")
    if csv_file is not None:
        with open(csv_file, "w", newline="", encoding="utf-8") as file:
            file.write("# Accuracy of resnet20 on CIFAR-10's test images after each epoch, by mpi-scripts/parity/cifar10.sh.\n")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["epoch", *curves])
            for epoch, values in enumerate(zip(*curves.values(), strict=True), 1):
                writer.writerow([epoch, *values])
    if least is not None and means["lockstep"] < least:
        sys.exit(f"error: the mean accuracy is below {least:.1%}")
    if within is not None and abs(difference) > within:
        sys.exit(f"error: PyTorch's mean differs by more than {100 * within:.1f} points")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    training = commands.add_parser("train")
    for name in ("run", "folder", "seed", "path"):
        training.add_argument(name)
    training.add_argument("--ranks", type=int, default=2)
    training.add_argument("--threads", type=int, default=1)
    training.set_defaults(call=train)
    results = commands.add_parser("table")
    results.add_argument("logs")
    results.add_argument("--csv", dest="csv_file")
    results.add_argument("--least", type=float)
    results.add_argument("--within", type=float)
    results.set_defaults(call=table)
    arguments = vars(parser.parse_args())
    arguments.pop("call")(**arguments)


if __name__ == "__main__":
    main()
