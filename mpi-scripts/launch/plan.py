# SPDX-License-Identifier: Apache-2.0
"""A run that is about to start, and what may be found out about it."""
import dataclasses
import re
import shlex

from launch import agents

MOST_NAMES = 8  # of hosts in a line


@dataclasses.dataclass
class Plan:
    """A run, as far as the hosts have to agree about it."""
    hosts: list
    ranks: dict  # by host
    program: str
    daemon: str = ""  # of the MPI launcher, by which it starts ranks on other hosts
    data: list = dataclasses.field(default_factory=list)  # files and folders that all hosts read
    writable: list = dataclasses.field(default_factory=list)  # folders that all hosts write
    saves: str = ""  # folder into which rank 0 saves checkpoints
    must_save: bool = False  # whether a run ends at once if it cannot
    variables: dict = dataclasses.field(default_factory=dict)
    threads: int = 1
    gpus: list = dataclasses.field(default_factory=list)
    ifname: str = ""
    port: int = 0


@dataclasses.dataclass
class Finding:
    host: str
    what: str
    remedy: str
    fails: bool = True

    def text(self, hosts):
        """@param hosts  those of which the same was found"""
        names = ", ".join(hosts[:MOST_NAMES]) + (f" and {len(hosts) - MOST_NAMES} more" if len(hosts) > MOST_NAMES else "")
        return f"{'error' if self.fails else 'warning'}: {names}: {self.what}. To mend it: {self.remedy}"


def on(host, command):
    """@param command  for a shell"""
    if agents.is_here(host):
        return command
    return f"ssh {host} {shlex.quote(command) if re.search(r'[^ a-zA-Z0-9_@%+=:,./-]', command) else command}"


def copied(path, host, options="-a", ending=""):
    """The command that copies a path to a host. @param ending  of both paths: / for what is in a folder"""
    return shlex.join(["rsync", *options.split(), path + ending, f"{host}:{path}"])
