# SPDX-License-Identifier: Apache-2.0
"""Runs a command: passes on its standard error and signals, and says why it failed."""
import collections
import dataclasses
import os
import re
import select
import signal
import subprocess
import sys
import time

from launch import agents, cause
from launch.options import NAME

HOLD = 5  # seconds: a line that is no last one, such as a warning, should not be late
LINGERS = 10  # seconds: Open MPI 4.1's mpirun may wait for ever for a rank that died while it connected
KEPT = 400  # lines of the launcher in which the cause is looked for
TAIL = 20  # lines of a log that are shown
SCREEN = 10  # lines: what stands above more is not seen
DETAIL = b"  | "  # begins the lines that explain a line of the program above them
FURTHER = b"  "  # begins further mistakes of a command line


@dataclasses.dataclass
class Outcome:
    code: int
    cause: object = None
    was_told_to_end: bool = False
    was_started: bool = True
    bad_hosts: tuple = ()  # hosts that failed the checks before a restart


class Signals:
    """Passes signals to the running command. Between commands they end the launcher."""

    def __init__(self):
        self.job = None
        self.starts = False  # a command is being started: what comes now is passed on once there is a process
        self.received = []
        self.told_to_end = False
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self.receive)

    def receive(self, number, _):
        self.told_to_end |= number != signal.SIGUSR1
        if self.starts:
            self.received.append(number)
        elif self.job is None and number != signal.SIGUSR1:
            sys.exit(128 + number)
        elif self.job is not None and number != signal.SIGINT:  # a terminal sends that to the command as well
            self.job.send_signal(number)

    def start(self, command):
        """Starts a command that receives the signals from now on, those that come meanwhile among them."""
        self.starts = True
        try:
            self.job = subprocess.Popen(command, stderr=subprocess.PIPE)
        finally:
            self.starts = False
            received, self.received = self.received, []
            for number in received:
                self.receive(number, None)
        return self.job


class Childless:
    """Tells when a launcher of MPI has had processes, and has had none for some time."""

    def __init__(self, process):
        self.process, self.had_any, self.since = process, False, None

    def has_any(self):
        try:
            return any(open(f"/proc/{self.process}/task/{thread}/children").read().strip()
                       for thread in os.listdir(f"/proc/{self.process}/task"))
        except OSError:  # it has ended, or this kernel does not tell
            return True

    def lasts(self):
        if self.has_any():
            self.had_any, self.since = True, None
        elif self.had_any:
            self.since = self.since or time.monotonic()
        return self.since is not None and time.monotonic() - self.since > LINGERS


def end(job):
    """Ends a launcher, which may remove its files first."""
    job.terminate()
    try:
        job.wait(5)
    except subprocess.TimeoutExpired:
        job.kill()
        job.wait()


def show(lines):
    """Writes lines in one go, so that others' lines do not mix with them."""
    data = b"".join(lines)
    while data:
        data = data[os.write(2, data):]


class Errors:
    """The standard error of a command."""

    def __init__(self, names):
        self.names = names  # of the program, with which its own lines begin
        self.own = []  # all lines of the program
        self.others = collections.deque(maxlen=KEPT)
        self.held = []  # lines, each with those that explain it
        self.said = set()  # all that the program said about itself
        self.begin = 0.0
        self.was_own = False  # the last line was the program's, or explains it

    def take(self, line):
        explains = line.startswith(DETAIL) or (self.was_own and line.startswith(FURTHER))
        self.was_own = line.split(b": ")[0] in self.names or (explains and self.held != [])
        if not self.was_own:
            self.others.append(line)
            show([line])
            return
        self.said.add(line)
        if explains:
            self.held[-1] += line
            return
        self.begin = self.begin if self.held else time.monotonic()
        self.held.append(line)
        self.own.append(line.decode(errors="replace").rstrip("\n"))

    def forward(self, job):
        """Passes everything on until nobody can write any more. Lines of the program stay back at the end."""
        rest = b""
        childless = Childless(job.pid) if re.match("mpirun|mpiexec", os.path.basename(job.args[0])) else None
        while True:
            ready = select.select([job.stderr], [], [], 0.2)[0]
            if not ready and childless and childless.lasts():
                print(f"{NAME}: {job.args[0]} has not ended {LINGERS} s after all that it started, and is ended", file=sys.stderr, flush=True)
                end(job)
                childless = None
            data = os.read(job.stderr.fileno(), 65536) if ready else None
            if data == b"" or (not ready and job.poll() is not None):
                if rest:
                    self.take(rest + b"\n" if self.held else rest)
                return
            if data:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self.take(line + b"\n")
            if self.held and time.monotonic() - self.begin > HOLD:
                show(self.held)
                self.held = []

    def why(self):
        return cause.find(self.own, b"".join(self.others).decode(errors="replace"))


def show_tail(found, log_dir, host, said):
    """Shows the end of a log, without what is on the screen: all lines of rank 0, and what the program said about itself."""
    if not log_dir or not found or found.rank in ("", "0"):
        return
    file = os.path.join(log_dir, f"workerlog.{found.rank}")
    lines = (agents.run_on(host, ["tail", "-n", str(10 * TAIL), file]) or "").encode().splitlines(keepends=True)
    lines = [line for line in lines if re.sub(rb"^\S+Z rank \d+ on [^:\s]+: ", b"", line) not in said][-TAIL:]
    if lines:
        show([f"{NAME}: the last lines of {file} on {found.host or host or 'this host'}:\n".encode(errors="surrogateescape"), *lines])


def run(command, signals, log_dir=None, listed=lambda name: name):
    """@param listed  the name by which a host was listed that calls itself so"""
    try:
        job = signals.start(command)
    except OSError as error:
        print(f"{NAME}: cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        return Outcome(127)
    errors = Errors({os.fsencode(os.path.basename(word)) for word in command[1:]})
    errors.forward(job)
    code = job.wait()
    signals.job = None
    code = code if code >= 0 else 128 - code
    found = errors.why() if code != 0 else None
    if not signals.told_to_end:
        show_tail(found, log_dir, listed(found.host) if found and found.host else None, errors.said)
    if found and found.line:  # the cause comes first, and once, unless it is off the screen then
        errors.held.sort(key=lambda line: line.decode(errors="replace").split("\n")[0] != found.line)
    show(errors.held)
    below = b"".join(errors.held).count(b"\n")
    if found and not signals.told_to_end and (not found.line or not errors.held or below > SCREEN):
        show([f"{NAME}: {found.text}\n".encode(errors="surrogateescape")])
    return Outcome(code, found, signals.told_to_end)
