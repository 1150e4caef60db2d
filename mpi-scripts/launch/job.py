# SPDX-License-Identifier: Apache-2.0
"""Runs a command: passes on its standard error and signals, and says why it failed."""
import atexit
import collections
import contextlib
import ctypes
import dataclasses
import os
import re
import select
import signal
import subprocess
import time

from launch import agents, cause
from launch.options import NAME

HOLD = 5  # seconds: a line that is no last one, such as a warning, should not be late
LINGERS = 10  # seconds: Open MPI 4.1's mpirun may wait for ever for a rank that died while it connected
KEPT = 400  # lines of the launcher in which the cause is looked for
TAIL = 20  # lines of a log that are shown
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1  # of prctl
SCREEN = 10  # lines: what stands above more is not seen
DETAIL = b"  | "  # begins the lines that explain a line of the program above them
FURTHER = b"  "  # begins further mistakes of a command line
GOES_ON = b"; training goes on"  # of a warning, which is late and wrong below the last lines of the run
NOT_SAVED = 5  # exit code of train


@dataclasses.dataclass
class Outcome:
    code: int
    cause: object = None
    was_told_to_end: bool = False
    was_started: bool = True
    bad_hosts: tuple = ()  # hosts that failed the checks before a restart


def in_own_session():
    """Of a command, which otherwise would outlive a launcher that is killed: no terminal can reach it. SIGUSR1 must not end it before
    it handles it, nor when it no longer does, as the run is complete. Ranks do not ignore it: what mpirun handles, they have as usual."""
    os.setsid()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))


class Signals:
    """Passes signals to the running command. Between commands they end the launcher.

    The command has a session of its own, because mpirun ends at the SIGHUP of a terminal that is closed, also under nohup."""

    def __init__(self):
        self.job = None
        self.starts = False  # a command is being started: what comes now is passed on once there is a process
        self.received = []
        self.told_to_end = False
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGTSTP):
            if signal.getsignal(number) != signal.SIG_IGN:  # by nohup, or by a shell
                signal.signal(number, self.suspend if number == signal.SIGTSTP else self.receive)
        atexit.register(signal.signal, signal.SIGUSR1, signal.SIG_IGN)  # Python restores the defaults before it ends

    def receive(self, number, _):
        self.told_to_end |= number != signal.SIGUSR1
        if self.starts:
            self.received.append(number)
        elif self.job is None and number != signal.SIGUSR1:
            sys.exit(128 + number)
        elif self.job is not None:  # mpirun and srun end at SIGHUP, each in its own way
            self.job.send_signal(signal.SIGTERM if number == signal.SIGHUP else number)

    def suspend(self, number, _):
        """Stops the command and the launcher, as Ctrl-Z would without the session of the command, until both are continued."""
        job = self.job
        if job is not None:
            job.send_signal(number)
        os.kill(os.getpid(), signal.SIGSTOP)
        if job is not None:
            job.send_signal(signal.SIGCONT)

    def start(self, command):
        """Starts a command that receives the signals from now on, those that come meanwhile among them."""
        self.starts = True
        try:
            self.job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=in_own_session)
        finally:
            self.starts = False
            received, self.received = self.received, []
            for number in received:
                self.receive(number, None)
        return self.job


def fields(process):
    """The fields of /proc/PID/stat behind the name: the state first."""
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()


class Childless:
    """Tells when a launcher of MPI has had processes, and has had none that lives for some time."""

    def __init__(self, process):
        self.process, self.since = process, None

    def children(self):
        for thread in os.listdir(f"/proc/{self.process}/task"):
            with open(f"/proc/{self.process}/task/{thread}/children") as file:
                yield from file.read().split()

    def is_childless(self):
        try:
            states = [fields(child)[0] for child in self.children()]
            # An mpirun that hangs leaves zombies. Children that it has waited for have left their page faults.
            return all(state == "Z" for state in states) and (bool(states) or int(fields(self.process)[8]) > 0)
        except OSError:  # one has ended, or this kernel does not tell
            return False

    def lasts(self):
        self.since = (self.since or time.monotonic()) if self.is_childless() else None
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
    """Writes lines in one go, so that others' lines do not mix with them. A terminal that is gone does not end the run."""
    data = b"".join(lines)
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(2, data):]


def say(text):
    show([f"{NAME}: {text}\n".encode(errors="surrogateescape")])


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
        if not self.was_own or GOES_ON in line:
            self.others.append(line)
            show([line])
            self.was_own = False
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
                say(f"{job.args[0]} has not ended {LINGERS} s after all that it started, and is ended")
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
        say(f"cannot start {command[0]}: {error.strerror}")
        return Outcome(127)
    errors = Errors({os.fsencode(os.path.basename(word)) for word in command[1:]})
    errors.forward(job)
    code = job.wait()
    signals.job = None
    code = code if code >= 0 else 128 - code
    found = errors.why() if code != 0 else None
    if found and not found.line and code == NOT_SAVED and b"train" in errors.names:
        found.text += ": the final state is in no checkpoint, for the reason that the line 'not saved: …' of the run gives"
    if not signals.told_to_end:
        show_tail(found, log_dir, listed(found.host) if found and found.host else None, errors.said)
    if found and found.line:  # the cause comes first, and once, unless it is off the screen then
        errors.held.sort(key=lambda line: line.decode(errors="replace").split("\n")[0] != found.line)
    show(errors.held)
    below = b"".join(errors.held).count(b"\n")
    if found and not signals.told_to_end and (not found.line or not errors.held or below > SCREEN):
        say(found.text)
    return Outcome(code, found, signals.told_to_end)
