# SPDX-License-Identifier: Apache-2.0
"""PyTorch's distributed package over lockstep: the back end "lockstep" for tensors in memory of the host.

Scripts that torchrun, mpirun or srun has started need no other line than

    torch.distributed.init_process_group("lockstep")            # or "cpu:lockstep,cuda:nccl"

Under mpirun and srun, the ranks, the address of rank 0 and its port, which PyTorch reads from the environment, are set where they
are not, unless LOCKSTEP_TORCH_ENVIRONMENT=no, and MPI connects the ranks. Otherwise PyTorch's store does. LOCKSTEP_TORCH_RANKS=mpi or
store chooses. Where lockstep was built without MPI, the store connects all ranks, and MASTER_ADDR has to be set if mpirun or srun
starts them on several hosts.
"""
import atexit
import functools
import ipaddress
import os
import re
import socket
import sys
import zlib

import torch
import torch.distributed as dist

from lockstep_torch._built_for import TORCH

if torch.__version__.split(".")[:2] != TORCH.split("."):
    raise ImportError(f"lockstep_torch was built for PyTorch {TORCH}, and this is PyTorch {torch.__version__}: build it again, by "
                      "pip install --no-build-isolation ./bindings/torch in a clone of lockstep, or install the other PyTorch")

# What launchers tell their processes: rank, size, rank on the host, and number of ranks on the host.
LAUNCHERS = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE"),
]
JOBS = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID")  # names of a job, one of which is set
_backends = []
_failure = []


def _module():
    """The extension. Its MPI is initialized when it is first asked for the rank."""
    from lockstep_torch import _lockstep
    return _lockstep


def _launched():
    """The variables of the launcher of MPI's ranks that has started this process; None if none has."""
    if "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun has, whatever has started that
        return None
    return next((names for names in LAUNCHERS if names[0] in os.environ and names[1] in os.environ), None)


def _set_environment():
    """Sets what PyTorch's env:// reads, and what torchrun would have set."""
    names = _launched()
    if names is None or "RANK" in os.environ or os.environ.get("LOCKSTEP_TORCH_ENVIRONMENT") == "no":
        return
    rank, size, local, on_host = (os.environ.get(name) for name in names)
    os.environ |= {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": local or "0"}
    on_host = re.sub(r"\(x\d+\)$", "", on_host or "")  # Slurm's "2(x3)": two on each of three hosts
    if on_host.isdigit():
        os.environ["LOCAL_WORLD_SIZE"] = on_host
    if "MASTER_ADDR" not in os.environ:
        one_host = on_host == size
        # Which host has rank 0 is in no variable of most launchers.
        if one_host:
            os.environ["MASTER_ADDR"] = "127.0.0.1"
        elif _module().has_mpi():
            os.environ["MASTER_ADDR"] = _address_of_rank_0()
    job = next((os.environ[name] for name in JOBS if name in os.environ), str(os.getppid()))
    os.environ.setdefault("MASTER_PORT", str(20000 + zlib.crc32(job.encode()) % 12000))


def _address_of_rank_0():
    module = _module()
    rank, _ = module.job_rank()
    return module.broadcast_text(socket.gethostbyname(socket.gethostname()) if rank == 0 else "")


def _come_from_mpi():
    """Whether MPI connects the ranks, which is the same on all of them."""
    choice = os.environ.get("LOCKSTEP_TORCH_RANKS", "mpi" if _launched() and _module().has_mpi() else "store")
    if choice not in ("mpi", "store"):
        raise ValueError(f"LOCKSTEP_TORCH_RANKS={choice}: choose mpi or store")
    return choice == "mpi"


def _own_host(store):
    """The address of this host on the way to the store's, which all ranks reach. On that host it is often one that means another host
    elsewhere, such as 127.0.1.1; the name by which others reach the store is right then.
    """
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    host = getattr(store, "host", socket.gethostname())
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:  # this sends nothing
            probe.connect(address)
            own = probe.getsockname()[0]
    except OSError:
        return host
    return host if ipaddress.ip_address(own).is_loopback else own


def _create(options, _):
    module = _module()
    store, rank, size = options.store, options.group_rank, options.group_size
    timeout = options.timeout.total_seconds()
    is_watched = not dist.is_initialized()  # the default group, which all processes have
    if getattr(options, "enable_reconfigure", False):  # it gets its members later, by their handles
        backend = module.make_backend_to_reconfigure(_own_host(store), rank, size, timeout, is_watched)
    elif _come_from_mpi():
        # Which ranks of MPI the group has is only known to them.
        store.set(f"lockstep/{rank}", str(module.job_rank()[0]))
        ranks = [int(store.get(f"lockstep/{other}")) for other in range(size)]
        tag = zlib.crc32(f"{options.group_id} {ranks}".encode()) % 32767
        backend = module.make_backend(ranks, tag, timeout, is_watched)
    else:
        backend = module.make_backend_from_store(store, rank, size, timeout, is_watched)
    if not _backends:  # programs that only import torch keep their own
        sys.excepthook = functools.partial(_note_failure, sys.excepthook)
        atexit.register(_end)
    _backends.append(backend)
    return backend


def _note_failure(before, kind, value, traceback):
    _failure.append(f"{kind.__name__}: {value}")
    before(kind, value, traceback)


def _end():
    """Closes what the script has left open, after its normal end; after an exception tells the other ranks why."""
    if not _backends:
        return
    module = _module()
    for backend in reversed(_backends):
        if not _failure:
            try:
                module.close(backend)
                continue
            except RuntimeError as error:  # a group that failed while this rank was elsewhere
                _failure.append(str(error))
                print(f"lockstep: a group could not be closed: {error}", file=sys.stderr)
        module.abort(backend, f"rank {backend.rank()} ended: {_failure[0]}")
    module.wait_until_idle()
    if not _failure:
        module.finalize()


def _register():
    if not dist.is_available():
        return
    _set_environment()
    dist.Backend.register_backend("lockstep", _create, extended_api=True, devices=["cpu"])


_register()
