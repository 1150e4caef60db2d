# SPDX-License-Identifier: Apache-2.0
"""A run that the launcher may start several times: checks, choice of threads, command, and what is known after its end."""
import os
import re
import sys

from launch import agents, cluster, command, job, preflight, resume, threads
from launch.options import NAME, port_of
from launch.plan import Plan
from launch.reader import value_of


def note(text):
    if text:
        job.say(text)


class Given:
    """A command of mpirun or srun, which is run as it is; after failures without some hosts, and from the last checkpoint."""

    def __init__(self, words, signals, restarts):
        self.words, self.signals = words, signals
        self.hosts = [entry.split(":")[0] for entry in command.hosts_in(words)[0]]
        place = command.program_at(words)
        self.is_train = place is not None
        self.run = resume.Run(words[place:], self.hosts[0] if self.hosts else None) if self.is_train and restarts else None
        self.place = place

    def ranks(self, left_out):
        words = self.command(left_out)
        return command.ranks_in(words) or sys.maxsize

    def command(self, left_out):
        words = self.words
        for host in left_out:
            words = command.without_host(words, host)
        return words

    def listed(self, name):
        return next((host for host in self.hosts if name in (host, host.split(".")[0])), name)

    def progress(self):
        return self.run.checkpoints() if self.run and self.run.path else None

    def start(self, left_out, number):
        words = self.command(left_out)
        if self.run:
            self.run.host = next((host for host in self.hosts if host not in left_out), None)
            words = [*words[:self.place + 1], *self.run.words(number > 0)]
        return job.run(words, self.signals)


class Own:
    """A run from the launcher's own options."""

    def __init__(self, options, placed, program, signals, restarts):
        """@param placed  ranks by host, in order; with the key None those of this host"""
        self.options, self.placed, self.signals = options, placed, signals
        self.program, self.arguments = program[0], program[1:]
        self.is_train = os.path.basename(self.program) == "train"
        self.launcher = command.Launcher()
        self.hosts = [host for host in placed if host is not None]
        self.run = resume.Run(program, next(iter(placed))) if self.is_train and restarts else None
        self.answers = {}

    def ranks(self, left_out):
        return sum(count for host, count in self.placed.items() if host not in left_out)

    def listed(self, name):
        return next((host for host, facts in self.answers.items() if facts.get("host") == name), name)

    def progress(self):
        return self.run.checkpoints() if self.run and self.run.path else None

    def plan(self, placed):
        hosts = [host for host in placed if host is not None] or ["localhost"]
        words = [self.program, *self.arguments]
        gpus = self.options["gpus"][1] if "gpus" in self.options else value_of(words, "--device") or ""
        data = [value_of(words, "--config"), *(value_of(words, name) for name in ("--data", "--val", "--data-dir"))] if self.is_train else []
        asked = value_of(words, "--threads") or os.environ.get("OMP_NUM_THREADS", "1")
        saves, must_save = resume.Run(words, None).written() if self.is_train else ("", False)
        return Plan(hosts=hosts, ranks={host: placed.get(host, placed.get(None)) for host in hosts}, program=self.program,
                           daemon=self.launcher.daemon if any(not agents.is_here(host) for host in hosts) else "",
                           data=[path for path in data if path],
                           writable=[os.path.abspath(self.options["log_dir"][1])] if "log_dir" in self.options else [],
                           saves=saves, must_save=must_save,
                           variables={name: value for name, value in command.forwarded().items() if not name.startswith("OMP")},
                           threads=int(asked) if asked.isdecimal() and asked != "0" else 1,
                           gpus=[int(gpu) for gpu in gpus.split(",")] if re.fullmatch(r"\d+(,\d+)*", gpus) else [],
                           ifname=self.options["ifname"][1] if "ifname" in self.options else "", port=port_of(self.options) or 0)

    def check(self, placed, with_table):
        report = preflight.check(self.plan(placed))
        report.print(NAME, with_table)
        self.answers.update(report.answers)
        return report

    def command(self, placed, number):
        """The command, with what the checks have found out."""
        known = {host: self.answers[host] for host in placed if "boot_id" in self.answers.get(host, {})}
        is_shared = any(len(hosts) > 1 for hosts in cluster.machines(known))
        here = len(placed) == 1 and (None in placed or agents.is_here(next(iter(placed))))
        places = threads.on_hosts(known, placed) if known else threads.on_this_host(sum(placed.values())) if here else {}
        chosen, why = threads.choose(places, is_shared)
        note(why)
        arguments = self.run.words(number > 0) if self.run else self.arguments
        takes_threads = self.is_train and not self.plan(placed).gpus and value_of([self.program, *self.arguments], "--threads") is None
        if is_shared and takes_threads:  # train shares processors on a host, not a machine
            arguments = [*arguments, "--threads", os.environ.get("OMP_NUM_THREADS") or chosen["OMP_NUM_THREADS"]]
        return command.command_of(self.launcher, self.options, placed, [self.program, *arguments], cluster.excluded(known), chosen, number > 0)

    def start(self, left_out, number):
        placed = {host: count for host, count in self.placed.items() if host not in left_out}
        if any(host is not None and not agents.is_here(host) for host in placed) and "no_preflight" not in self.options:
            report = self.check(placed, False)
            if report.failures:
                return job.Outcome(1, None, self.signals.told_to_end, False, tuple(report.bad_hosts()) if number else ())
        if self.run:
            self.run.host = next(iter(placed))
        words = self.command(placed, number)
        log_dir = os.path.abspath(self.options["log_dir"][1]) if "log_dir" in self.options else None
        return job.run(words, self.signals, log_dir, self.listed)
