#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains with libraries on top of torch.distributed, unmodified, and prints a digest of the weights.

  mpirun -n 2 python3 mpi-scripts/parity/torch-clients.py CLIENT BACKEND

CLIENT is ddp, fsdp2, zero, dtensor, lightning-resnet18, lightning-language, accelerate-resnet18 or accelerate-language, or ddp-allocated
or fsdp2-allocated, whose buffers come from the back end where it can allocate; BACKEND is lockstep or gloo. torch-c10d.sh compares
the digests. Nothing here names lockstep but BACKEND.
"""
import os
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn

STEPS = 6
CHARACTERS = 32


def pictures(count):
    generator = torch.Generator().manual_seed(1)
    return torch.utils.data.TensorDataset(torch.randn(count, 3, 32, 32, generator=generator),
                                          torch.randint(0, 10, (count,), generator=generator))


def lines(count):
    """Texts in which each character follows from the one before."""
    first = torch.arange(count).unsqueeze(1)
    text = (first + 3 * torch.arange(25)) % CHARACTERS
    return torch.utils.data.TensorDataset(text[:, :-1], text[:, 1:])


class Language(nn.Module):
    """A small language model: two layers of a transformer that sees only what comes before."""

    def __init__(self):
        super().__init__()
        self.embedding, self.places = nn.Embedding(CHARACTERS, 32), nn.Embedding(24, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, CHARACTERS)

    def forward(self, text):
        length = text.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        hidden = self.layers(self.embedding(text) + self.places(torch.arange(length)), mask=mask)
        return self.head(hidden).transpose(1, 2)


def job(name):
    """A model, always with the same weights, and its data."""
    torch.manual_seed(0)
    if name == "language":
        return Language(), lines(8 * STEPS)
    import torchvision
    return torchvision.models.resnet18(num_classes=10), pictures(8 * STEPS)


def loss_of(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def steps(model, optimizer):
    """Steps over pictures of this rank's own."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, (torch.randn(4, 3, 32, 32, generator=generator), torch.randint(0, 10, (4,), generator=generator))).backward()
        optimizer.step()


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 32 * 32, 10))


def allocations():
    """How many tensors the back end has allocated; None if that is Gloo, which allocates none."""
    if dist.get_backend() == "gloo":
        return None
    from lockstep_torch import _lockstep
    return _lockstep.allocations(dist.group.WORLD._get_backend(torch.device("cpu")))


def check_allocations(name):
    count = allocations()
    assert count is None or (count > 0) == (name == "allocated"), f"the back end has allocated {count} tensors"


def ddp(name):
    if name == "allocated":
        os.environ["DDP_DISABLE_COMM_MEM"] = "0"
    model = nn.parallel.DistributedDataParallel(small())
    steps(model, torch.optim.SGD(model.parameters(), 0.01, momentum=0.9))
    check_allocations(name)
    return model.parameters()


def zero(_):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = nn.parallel.DistributedDataParallel(small())
    steps(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01))
    return model.parameters()


def fsdp2(name):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh, model = init_device_mesh("cpu", (dist.get_world_size(),)), small()
    for part in (model[0], model[3], model):
        fully_shard(part, mesh=mesh)
        if name == "allocated":
            part.set_allocate_memory_from_process_group_for_comm(True)
    steps(model, torch.optim.Adam(model.parameters(), 0.01))
    check_allocations(name)
    return [parameter.full_tensor() for parameter in model.parameters()]


def dtensor(_):
    """A matrix in shards of rows, of columns and whole on each rank, and products of shards, whose sums are reduced."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    whole = torch.randn(7, 5)  # not a multiple of the ranks
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    columns, copies = rows.redistribute(mesh, [Shard(1)]), rows.redistribute(mesh, [Replicate()])
    assert torch.equal(copies.to_local(), whole) and torch.equal(columns.full_tensor(), whole)
    assert torch.equal(columns.redistribute(mesh, [Shard(0)]).to_local(), rows.to_local())
    own = DTensor.from_local(whole * (dist.get_rank() + 1), mesh, [Partial()])
    product = rows.t() @ rows  # a sum over the shards
    assert product.placements[0].is_partial(), product.placements
    return [rows.full_tensor(), product.redistribute(mesh, [Shard(0)]).full_tensor(), product.redistribute(mesh, [Replicate()]).to_local(),
            own.redistribute(mesh, [Shard(0)]).full_tensor(), distribute_tensor(whole.t(), mesh, [Replicate()]).to_local()]


def with_lightning(name, backend):
    import lightning
    from lightning.pytorch.strategies import DDPStrategy
    model, data = job(name)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model

        def training_step(self, batch, _):
            return loss_of(self.model, batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)
    nodes = int(os.environ.get("SLURM_NNODES", 1))
    trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]) // nodes, num_nodes=nodes, max_epochs=2,
                                strategy=DDPStrategy(process_group_backend=backend), logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Module(), torch.utils.data.DataLoader(data, 4))
    return model.parameters()


def with_accelerate(name):
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    model, data = job(name)
    prepared, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.01),
                                                      torch.utils.data.DataLoader(data, 4))
    for _ in range(2):
        for batch in loader:
            optimizer.zero_grad()
            accelerator.backward(loss_of(prepared, batch))
            optimizer.step()
    return model.parameters()


def main():
    client, backend = sys.argv[1:]
    warnings.filterwarnings("ignore")
    library, _, name = client.partition("-")
    if library == "lightning":  # makes the group itself
        parameters = with_lightning(name, backend)
    else:
        dist.init_process_group(backend)  # accelerate knows no other back ends for CPUs than its own unless a group is there
        parameters = {"ddp": ddp, "zero": zero, "fsdp2": fsdp2, "dtensor": dtensor, "accelerate": with_accelerate}[library](name)
    digest = sum(parameter.detach().double().abs().sum() for parameter in parameters)
    assert dist.get_backend() == backend, dist.get_backend()
    print(f"digest {digest.item():.12f} of rank {dist.get_rank()}", flush=True)
    dist.destroy_process_group()


main()
