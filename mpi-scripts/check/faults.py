#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a run of train fail in many ways, and checks how it ends: with which message, exit code, and within which time;
that no process and no file in shared memory is left; and that the run can be resumed.

  faults.py --train FILE --faulty FILE [--few] [--only TEXT] [--kills N [--at-once K]] [--mpiexec COMMAND] [--table FILE]
    --train, --faulty   the program train, and the one of tests/apps/train/faulty.cpp, which fails by the variable FAULT
    --few               the dozen that continuous integration runs
    --only TEXT         rows whose name contains this
    --table FILE        write what was seen as CSV, for docs/measurements/faults.csv
    --kills N           instead, kill a random rank of N jobs at random times, K of them at a time, and look for what is left

The exit status is 1 if a fault was not reported as its row says."""
import argparse
import concurrent.futures
import csv
import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

RANKS = 4
TIMEOUT = 5  # of --comm-timeout
INTERVAL = 10  # steps between two saves
COMMON = (f"--model lenet --batch 32 --shards 4 --seed 7 --epochs 100000 --log-every 1 --comm-timeout {TIMEOUT} --workers 1 "
          f"--save-steps {INTERVAL}")


class Fault:
    """A row: what is done to rank 1, when, and what has to be seen.

    @param inject  does it from outside. @param variable  otherwise: FAULT of the program that fails by itself"""

    def __init__(self, name, phase, texts, codes, seconds, few, inject, variable):
        self.name, self.phase, self.texts, self.codes, self.seconds = name, phase, texts, codes, seconds
        self.few, self.inject, self.variable = few, inject, variable


def marked(marker, program=None):
    """The processes whose command line contains the marker; of a program only if it is given."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(marker in word for word in words) and (program is None or words[0] == program):
            found.append(int(folder.name))
    return found


def variable_of(process, names):
    """The value of the first of these variables that the process has."""
    try:
        variables = pathlib.Path(f"/proc/{process}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    found = dict(variable.partition("=")[::2] for variable in variables)
    return next((found[name] for name in names if name in found), None)


def rank_of(process):
    rank = variable_of(process, ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"))
    return None if rank is None else int(rank)


def until(condition, seconds):
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            return None
        time.sleep(0.005)
    return found


class Job:
    """A run of RANKS ranks in a folder of its own."""

    def __init__(self, options, folder, program, arguments, fault=""):
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.program = program
        self.marker = str(folder)
        self.output = folder / "output.txt"
        self.number = None  # Open MPI's number of the job
        self.processes = {}  # of ranks that were asked for
        command = [*shlex.split(options.mpiexec), "-n", str(RANKS), program, *COMMON.split(), *arguments.split(),
                   "--save-dir", str(folder / "run")]
        # Open MPI 5 names its files in shared memory by no number that is known here: those of other jobs are told apart by the folder.
        environment = dict(os.environ, FAULT=fault, FAULT_CHECKPOINTS=str(folder / "run" / "checkpoints"),
                           OMPI_MCA_btl_sm_backing_directory=str(folder))
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment,
                                            start_new_session=True)

    def rank(self, number):
        process = until(lambda: next((p for p in marked(self.marker, self.program) if rank_of(p) == number), None), 120)
        self.number = self.number or variable_of(process, ["OMPI_MCA_ess_base_jobid"])
        self.processes[number] = process
        return process

    def text(self):
        """The output. MPICH's launcher names a process only, to which its rank is added."""
        text = self.output.read_text(errors="replace")
        for rank, process in self.processes.items():
            text = text.replace(f"PID {process} RUNNING AT", f"process rank {rank} with PID {process} RUNNING AT")
        return text

    def wait(self, seconds):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def steps(self):
        """How many steps the run has reported."""
        metrics = self.folder / "run" / "metrics.jsonl"
        return metrics.read_text(errors="replace").count('"event":"step"') if metrics.exists() else 0

    def saved_steps(self):
        return max((int(p.name[5:]) for p in self.saves() if p.name.startswith("step-")), default=0)

    def saves(self):
        return list((self.folder / "run" / "checkpoints").glob("*")) if (self.folder / "run").exists() else []

    def kill(self):
        for process in marked(self.marker):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


def by_signal(number, phase):
    """Sends a signal to rank 1: soon after its process has begun, or in a step after the first save."""
    def inject(job):
        victim = job.rank(1)
        if phase == "start":
            time.sleep(0.2)
        else:
            until(job.saves, 60)
        os.kill(victim, number)
    return inject


DEAD = [r"process rank 1 with PID|rank 1, a process on this host, has ended|rank 1 on \S+"]
STOPPED = [r"rank 1 on \S+|\(rank 1\) on this host", r"is stopped"]


def rows(is_mpich):
    """Signals come from outside at the start and in training, and from within in a save and in an evaluation.

    @param is_mpich  MPICH's launcher kills the other ranks as soon as one has died, before they say anything. It names the process of
                     one of them, and returns the number of the signal"""
    dead = [DEAD[0] + r"|PID \d+ RUNNING AT"] if is_mpich else DEAD
    few = {("SIGKILL", "start"), ("SIGKILL", "training"), ("SIGKILL", "save"), ("SIGSEGV", "start"), ("SIGSEGV", "training"),
           ("SIGSEGV", "save"), ("SIGTERM", "training"), ("SIGSTOP", "training"), ("exit(0)", "training"), ("exception", "training"),
           ("a held lock", "start"), ("a held lock", "training")}
    hangs = 1.2 * TIMEOUT + 6
    found = []

    def add(name, phase, kind, texts, codes, seconds):
        from_outside = kind.isdigit() and phase in ("start", "training")
        found.append(Fault(name, phase, texts, codes, seconds, (name, phase) in few,
                           by_signal(int(kind), phase) if from_outside else None, "" if from_outside else f"{kind}:{phase}:1"))

    for phase in ("start", "training", "save", "evaluation"):
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
            add(number.name, phase, str(int(number)), dead, {128 + number, 1} | ({number} if is_mpich else set()), 4)
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            add(number.name, phase, str(int(number)), [r"checkpoint|model: |signal"], {3, 128 + number} if phase == "start" else {3}, 8)
        add("SIGSTOP", phase, str(int(signal.SIGSTOP)), STOPPED, {4}, hangs)
        add("exit(0)", phase, "exit", dead, {0, 1} | ({signal.SIGKILL} if is_mpich else set()), 6)
        add("exception", phase, "throw", [r"rank 1 on \S+: .*the sensor gives no images"], {1}, 6)
        add("a held lock", phase, "lock", [r"rank 1 on \S+", r"wait_for_a_lock|__lll_lock_wait|pthread_mutex_lock"], {4}, hangs)
    return found


def forsaken(job=None):
    """The files in the shared memory of this host, or of those of local-cluster.sh, that no process maps or has open. Where Open MPI's
    number of the job is known, which names its files, only those of the job: others may run."""
    folders = [*pathlib.Path("/run").glob("hosts/*/shm")] or [pathlib.Path("/dev/shm")]
    files = {file for folder in folders for file in folder.iterdir() if file.is_file()}
    if job and job.number:
        files = {file for file in files if f"{int(job.number):x}" in file.name}
    for process in pathlib.Path("/proc").iterdir():
        try:
            used = (process / "maps").read_text() + " ".join(os.readlink(link) for link in (process / "fd").iterdir())
        except OSError:  # it is no process, has ended meanwhile, or is another user's
            continue
        files = {file for file in files if file.name not in used}
    return set(map(str, files))


def seconds_of_end(fault, job):
    """Injects the fault, and waits for the end. @return its exit code, and how long it took after the fault"""
    if fault.inject is not None:
        fault.inject(job)
        begin = time.monotonic()
    else:
        # The program fails by itself. What it did before, the start of MPI above all, is not of interest.
        job.rank(1)
        begin = time.monotonic() if fault.phase == "start" else None
        while begin is None and job.process.poll() is None:
            time.sleep(0.02)
            if "epoch" in job.text() or job.saves():
                begin = time.monotonic()
        begin = begin or time.monotonic()
    return job.wait(fault.seconds + 60), time.monotonic() - begin


def defect_of_launcher(job, code):
    """What Open MPI 4.1's mpirun does now and then, if a rank dies while it is started: whatever happens later is not of interest."""
    if code is None and marked(job.marker) == [job.process.pid]:
        return "mpirun itself hangs after all ranks have ended"
    if "Primary job  terminated normally" in job.text() and not re.search(r"process rank \d+ with PID|rank \d+ on ", job.text()):
        return "mpirun names no rank, since this one died before mpirun had noted its start"
    return None


def run(fault, options, folder):
    """@return what is wrong, and the row of the table"""
    program = options.faulty if fault.variable else options.train
    before = forsaken()
    wrong = []
    for attempt in range(3):
        job = Job(options, folder / str(attempt), program, "", fault.variable)
        code, seconds = seconds_of_end(fault, job)
        if fault.phase != "start" or not (defect := defect_of_launcher(job, code)):
            break
        print(f"        {fault.name}, {fault.phase}: {defect}; another attempt", flush=True)
        job.kill()
    if code is None:
        wrong.append("it hangs")
    elif code < 0 and fault.phase == "start":
        pass  # Open MPI 4.1's mpirun itself sometimes crashes (SIGPIPE, SIGSEGV) when a rank dies while it connects to it.
    elif (code if code >= 0 else 128 - code) not in fault.codes:
        wrong.append(f"exit code {code} instead of {sorted(fault.codes)}")
    if seconds > fault.seconds:
        wrong.append(f"it took {seconds:.1f} s instead of {fault.seconds:.1f} s")
    text = job.text()
    wrong += [f"no line with '{expected}'" for expected in fault.texts if not re.search(expected, text)]
    if not until(lambda: not marked(job.marker), 5):
        wrong.append(f"processes are left: {marked(job.marker)}")
    job.kill()
    left = {name for name in forsaken(job) - before if until(lambda n=name: n not in forsaken(job), 3) is None}
    # MPICH removes this file of its own when all ranks have opened it, so it may be left by a start, also of another job.
    left = {name for name in left if "/mpich_shar_tmp" not in name}
    if left:
        wrong.append(f"left in /dev/shm: {sorted(left)}")
    if (lost := job.steps() - job.saved_steps()) >= 2 * INTERVAL:  # an interval, and what is trained while a save is written
        wrong.append(f"{lost} steps are lost, though each {INTERVAL} are saved")
    if not wrong:
        # The same data, of which the phase decides how many there are, without the fault.
        resumed = Job(options, job.folder, program, "--resume auto --max-time 1s", fault.variable and fault.variable[:-1] + "none")
        if resumed.wait(60) not in (0, 3):
            wrong.append(f"the run cannot be resumed: {resumed.text()[-500:]}")
        resumed.kill()
    line = next((line for line in text.splitlines() if re.search("process rank 1 with PID", line) or re.search(r"^\w+: .*rank 1\b", line)),
                "(it saves a checkpoint and ends in good order)" if code == 3 else "")
    return wrong, text, [fault.name, fault.phase, f"{seconds:.1f}", code, line[:160]]


def killed(options, number):
    """Kills a random rank of a job, at a random time from its start on.

    @return what is wrong, the seconds until its end, and whether mpirun itself hung, as Open MPI 4.1's does now and then if a rank
            dies while it connects"""
    with tempfile.TemporaryDirectory(prefix="lockstep-faults-") as folder:
        draw = random.Random(f"{options.seed} {number}")
        job = Job(options, pathlib.Path(folder), options.train, "")
        victim = job.rank(draw.randrange(RANKS))
        time.sleep(draw.uniform(0, 2))
        begin = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        code = job.wait(60)
        seconds = time.monotonic() - begin
        hung = code is None and marked(job.marker) == [job.process.pid]
        wrong = [] if code not in (None, 0) or hung else [f"exit code {code}"]
        if hung:
            job.process.terminate()  # so that it removes its files
            job.wait(10)
        elif not until(lambda: not marked(job.marker), 5):
            wrong.append(f"processes are left: {marked(job.marker)}")
        if wrong:
            print(f"FAILED  kill {number + 1}: {'; '.join(wrong)}\n{job.text()[-2000:]}", flush=True)
        job.kill()
        return wrong, seconds, hung


def kill_often(options):
    """@return whether a job has not ended as it should, or files are left in shared memory"""
    before = forsaken()
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as threads:
        results = list(threads.map(lambda number: killed(options, number), range(options.kills)))
    left = forsaken() - before
    good = sum(not wrong for wrong, _, _ in results)
    slowest = max((seconds for _, seconds, hung in results if not hung), default=0)
    print(f"{good} of {options.kills} killed jobs left no process of theirs; mpirun itself hung {sum(hung for *_, hung in results)} times; the "
          f"slowest of the others ended after {slowest:.1f} s. Files left in shared memory: {sorted(left) or 'none'}.", flush=True)
    return good < options.kills or left


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True)
    parser.add_argument("--faulty", required=True)
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--mpiexec", default="mpirun --oversubscribe --bind-to none")
    parser.add_argument("--table")
    parser.add_argument("--kills", type=int, help="instead, kill a random rank of so many jobs, and look for what is left")
    parser.add_argument("--seed", type=int, default=1, help="of the draws of --kills")
    parser.add_argument("--at-once", type=int, default=1, help="so many of these jobs run at a time")
    options = parser.parse_args()
    if options.kills:
        return 1 if kill_often(options) else 0
    version = subprocess.run([shlex.split(options.mpiexec)[0], "--version"], capture_output=True, text=True, check=False).stdout
    chosen = [f for f in rows("HYDRA" in version) if (f.few or not options.few) and options.only in f"{f.name}, {f.phase}"]
    failed, table = 0, []
    for fault in chosen:
        with tempfile.TemporaryDirectory(prefix="lockstep-faults-") as folder:
            wrong, text, row = run(fault, options, pathlib.Path(folder))
        table.append(row)
        print(f"{'FAILED' if wrong else 'ok    '}  {', '.join(map(str, row))}", flush=True)
        if wrong:
            failed += 1
            print("  " + "\n  ".join(wrong) + "\n" + "\n".join("    " + line for line in text.splitlines()[-30:]), flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} faults were reported as they should be.")
    if options.table:
        with open(options.table, "w", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([["fault", "phase", "seconds", "exit_code", "first_line"], *table])
    return 1 if failed else 0


sys.exit(main())
