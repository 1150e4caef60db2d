# SPDX-License-Identifier: Apache-2.0
"""The command line of the MPI launcher."""
import os
import re
import subprocess

from launch.options import UsageError, port_of, NAME
from launch.reader import value_of
from launch.worker import WORKER

FORWARDED = re.compile(r"(NCCL|LOCKSTEP|OMP|GOMP|UCX|EMULATED_GPU)_\w+|CUDA_(VISIBLE_DEVICES|DEVICE_ORDER)|LD_LIBRARY_PATH|PATH")
LAUNCHERS = ("mpirun", "mpiexec", "srun")
HOST_OPTIONS = ("-H", "-host", "--host", "-hosts", "--hosts")
COUNT_OPTIONS = ("-np", "--np", "-n", "--n", "--ntasks")


class Launcher:
    """The MPI launcher that is named in MPIEXEC, or mpirun."""

    def __init__(self):
        self.path = os.environ.get("MPIEXEC", "mpirun")
        try:
            done = subprocess.run([self.path, "--version"], capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise UsageError(f"{self.path} cannot be started ({error.strerror}): install Open MPI or MPICH, or name it in MPIEXEC") from error
        text = done.stdout + done.stderr
        self.is_open_mpi = re.search(r"Open ?MPI|OpenRTE|PRRTE", text) is not None
        self.is_prrte = is_prrte = re.search(r"PRRTE|prterun|\(Open MPI\) [5-9]", text) is not None
        self.daemon = "hydra_pmi_proxy" if not self.is_open_mpi else "prted" if is_prrte else "orted"
        if os.path.isabs(self.path):  # then the launcher takes the daemon beside itself
            folder = os.path.dirname(self.path if self.is_open_mpi else os.path.realpath(self.path))
            self.daemon = os.path.join(folder, self.daemon)


def forwarded():
    return {name: value for name, value in os.environ.items() if FORWARDED.fullmatch(name)}


def interface_words(launcher, options, excluded):
    """Options about networks, and what NCCL is told."""
    ifname = options["ifname"][1] if "ifname" in options else None
    if ifname and launcher.is_open_mpi:
        return ["--mca", "btl_tcp_if_include", ifname, "--mca", "oob_tcp_if_include", ifname], {"NCCL_SOCKET_IFNAME": ifname}
    if ifname:
        return ["-iface", ifname], {"NCCL_SOCKET_IFNAME": ifname}
    if not excluded or any(re.fullmatch(r"(OMPI|PRTE)_MCA_\w+_if_(include|exclude)|NCCL_SOCKET_IFNAME", name) for name in os.environ):
        return [], {}
    names = ",".join(excluded)
    words = ["--mca", "btl_tcp_if_exclude", f"127.0.0.1/8,sppp,{names}", "--mca", "oob_tcp_if_exclude", f"lo,{names}"]
    return words if launcher.is_open_mpi else [], {"NCCL_SOCKET_IFNAME": f"^lo,{names}"}


def command_of(launcher, options, placed, program, excluded=(), chosen=None, appends=False):
    """@param placed    ranks by host, in order; with the key None those of this host
    @param excluded  network interfaces by which no host reaches another
    @param chosen    variables that the launcher has chosen
    @param appends   whether --log_dir goes on with the files that are there"""
    port = port_of(options)
    log_dir = [os.path.abspath(options["log_dir"][1]), "append" if appends else "new"] if "log_dir" in options else []
    worker = ["bash", "-c", WORKER, NAME, *log_dir] if log_dir else []
    network, variables = interface_words(launcher, options, excluded)
    variables.update(chosen or {})
    listed = ",".join(f"{host}:{count}" for host, count in placed.items() if host is not None)
    ranks = str(sum(placed.values()))
    if not launcher.is_open_mpi:
        command = [launcher.path, *network, *(["-hosts", listed] if listed else [])]
        for name in sorted(variables):
            command += ["-genv", name, variables[name]]
        return [*command, "-n", ranks, *worker, *program]
    command = [launcher.path, *(["-H", listed] if listed else ["--oversubscribe"]), "-np", ranks, "--bind-to", "none", *network]
    if launcher.is_prrte and value_of(program, "--min-ranks") not in (None, "off", "0"):
        command += ["--with-ft", "ulfm"]
    if port:
        command += ["--mca", "btl_tcp_port_min_v4", str(port)]
    for name in sorted({*forwarded(), *variables}):
        command += ["-x", f"{name}={variables[name]}" if name in variables else name]
    return [*command, *worker, *program]


def program_at(command):
    """Where lockstep's train is in a command; None if it is not there."""
    return next((number for number, word in enumerate(command) if number > 0 and os.path.basename(word) == "train"), None)


def hosts_in(command):
    """Hosts, and where their list is, in a command of the MPI launcher; its program's options come later."""
    for number, word in enumerate(command[:program_at(command) or len(command)]):
        if word in HOST_OPTIONS and number + 1 < len(command):
            return command[number + 1].split(","), number + 1
    return [], None


def without_host(command, host):
    """The command with one host less, and as many ranks less as it had."""
    entries, place = hosts_in(command)
    kept = [entry for entry in entries if entry.split(":")[0] != host]
    if len(kept) == len(entries):
        return command
    dropped = next(entry for entry in entries if entry.split(":")[0] == host)
    command = list(command)
    command[place] = ",".join(kept)
    for number, word in enumerate(command[:program_at(command) or len(command)]):
        if word in COUNT_OPTIONS and command[number + 1].isdecimal():
            ranks = int(command[number + 1])
            slots = dropped.partition(":")[2].split(":")[0]
            command[number + 1] = str(ranks - int(slots) if slots else ranks * len(kept) // len(entries))
            break
    return command


def ranks_in(command):
    """How many ranks a command starts; None if it does not say so."""
    for number, word in enumerate(command[:program_at(command) or len(command)]):
        if word in COUNT_OPTIONS and number + 1 < len(command) and command[number + 1].isdecimal():
            return int(command[number + 1])
    return None
