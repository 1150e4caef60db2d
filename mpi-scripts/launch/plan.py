# SPDX-License-Identifier: Apache-2.0
"""A run that is about to start, and what may be found out about it."""
import dataclasses

from launch import agents


@dataclasses.dataclass
class Plan:
    """A run, as far as the hosts have to agree about it."""
    hosts: list
    ranks: dict  # by host
    program: str
    daemon: str = ""  # of the MPI launcher, by which it starts ranks on other hosts
    data: list = dataclasses.field(default_factory=list)  # files and folders that all hosts read
    writable: list = dataclasses.field(default_factory=list)  # folders that all hosts write
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

    def text(self):
        return f"{'error' if self.fails else 'warning'}: {self.host}: {self.what}. To mend it: {self.remedy}"


def on(host, command):
    return command if agents.is_here(host) else f"ssh {host} {command}"
