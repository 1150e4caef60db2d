# SPDX-License-Identifier: Apache-2.0
"""Runs commands on hosts, as the MPI launcher does: by ssh, or by the agent that its variables name."""
import functools
import os
import shlex
import socket
import subprocess

from launch.options import UsageError

VARIABLES = ("LOCKSTEP_LAUNCH_AGENT", "OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "HYDRA_LAUNCHER_EXEC")
SSH = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=2"]


def agent():
    """The words before the host's name."""
    for name in VARIABLES:
        if os.environ.get(name):
            try:
                return shlex.split(os.environ[name].split(":")[0])
            except ValueError as error:
                raise UsageError(f"{name}={os.environ[name]}: {error}") from error
    return SSH


@functools.lru_cache(maxsize=None)
def address_of(host):
    """The host's first IPv4 address; empty if its name does not resolve."""
    try:
        return socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
    except OSError:
        return ""


@functools.lru_cache(maxsize=None)
def is_here(host):
    """Whether this is the launcher's own host, where the MPI launcher uses no agent."""
    if host in ("localhost", socket.gethostname(), socket.gethostname().split(".")[0]):
        return True
    address = address_of(host)
    if not address:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        try:
            asker.bind((address, 0))  # only an address of this host is accepted
        except OSError:
            return False
    return True


def command_on(host, command):
    """@param command  words that need no quotes for the local host, and are quoted for the shell of another one"""
    return list(command) if host is None or is_here(host) else [*agent(), host, shlex.join(command)]


def run_on(host, command, seconds=10):
    """What a short command prints on a host (None: on this one); None if it fails or does not end in time."""
    try:
        done = subprocess.run(command_on(host, command), stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None
