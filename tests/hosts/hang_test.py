# SPDX-License-Identifier: Apache-2.0
"""What the watchdogs say across hosts: hang_test.py TRAIN, beside the three hosts of local-cluster.sh.

MPI cannot tell of a rank that is stopped alone on its host, or behind a cut link: its last heartbeat does."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TRAIN = sys.argv[1]
TIMEOUT = 4
SKIPPED = 77
LAUNCHER = os.environ.get("MPIEXEC", "mpirun")


def on(host, *command):
    return subprocess.run(["nsenter", f"--net=/run/hosts/{host}/net", *command], check=True)


def rank_of(process):
    try:
        found = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", pathlib.Path(f"/proc/{process}/environ").read_bytes())
    except OSError:
        return None
    return int(found.group(1)) if found else None


def processes(marker):
    """The ranks of a run by number, as this world sees them."""
    found = {}
    for folder in pathlib.Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
        except OSError:
            continue
        if words and words[0] == TRAIN.encode() and any(marker.encode() in word for word in words):
            found[rank_of(folder.name)] = int(folder.name)
    return found


class Hang(unittest.TestCase):
    def run_until(self, inject, still=()):
        """A run of a rank on each host, to which something is done while it trains.
        @param still  ranks that cannot end by themselves
        @return the exit code of mpirun, None if it did not end, and what the ranks have written to standard error"""
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "output.txt"
            command = [LAUNCHER, "--output-filename", f"{folder}/logs", "-H", "host1,host2,host3", "-np", "3", TRAIN, "--device", "cpu", "--batch", "24", "--epochs", "100000",
                       "--save-dir", folder + "/run", "--save-steps", "5", "--comm-timeout", str(TIMEOUT), "--threads", "1"]
            with output.open("wb") as file:
                job = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT,
                                       env=os.environ | {"OMPI_MCA_mpi_yield_when_idle": "1"})
            end = time.monotonic() + 60
            while not list(pathlib.Path(folder).glob("run/checkpoints/step-*")):
                self.assertLess(time.monotonic(), end, output.read_text())
                self.assertIsNone(job.poll(), output.read_text())
                time.sleep(0.05)
            time.sleep(1.5)  # there is a heartbeat a second
            ranks = processes(folder)
            self.assertEqual(sorted(ranks), [0, 1, 2])
            inject(ranks)
            try:
                code = job.wait(20)
            except subprocess.TimeoutExpired:  # mpirun waits for a host that it cannot reach any more
                code = None
                job.kill()
            stopped = [rank for rank in processes(folder) if rank in still]
            end = time.monotonic() + 20
            while set(processes(folder)) - set(stopped) and time.monotonic() < end:
                time.sleep(0.1)
            left = sorted(set(processes(folder)) - set(stopped))
            for process in processes(folder).values():
                os.kill(process, signal.SIGKILL)
            logs = "".join(file.read_text() for file in sorted(pathlib.Path(folder).glob("logs/*/*/stderr")))
            self.assertEqual(left, [], "ranks are left\n" + logs)
            return code, logs

    def test_a_rank_that_is_stopped_alone_on_its_host(self):
        code, output = self.run_until(lambda ranks: os.kill(ranks[1], signal.SIGSTOP), still=(1,))
        self.assertEqual(code, 4, output)
        self.assertRegex(output, r"train: rank [02] on host[13]: timeout: .*rank 1 on host2 does not answer")
        self.assertRegex(output, r"rank 1 on host2: its process is silent; .*rank 2, which received its last heartbeat")
        # The rank may be stopped while they save a checkpoint, in which each may wait at a place of its own.
        together = r"2 of 3 ranks \(ranks 0 on host1, 2 on host3\) wait here:\n.*lockstep::"
        apart = r"rank 0 on host1 waits here:\n.*lockstep::(.*\n)*.*rank 2 on host3 waits here:\n.*lockstep::"
        self.assertRegex(output, f"{together}|{apart}")

    def test_a_cut_link(self):
        """Each side names the other one, in its own words: the alarm of one does not reach the other."""
        try:
            _, output = self.run_until(lambda ranks: on("host2", "ip", "link", "set", "eth0", "down"))
        finally:
            on("host2", "ip", "link", "set", "eth0", "up")
        self.assertRegex(output, r"train: rank [02] on host[13]: .*rank 1 on host2")
        self.assertRegex(output, r"train: rank 1 on host2: .*ranks? .*(0 on host1|2 on host3)")
        self.assertRegex(output, r"rank 1 on host2: its process is silent; .*rank 2, which received its last heartbeat")


if __name__ == "__main__":
    version = subprocess.run([LAUNCHER, "--version"], capture_output=True, text=True).stdout
    if not re.search(r"\(Open MPI\) 4|OpenRTE\) 4", version):
        print("skipped: [mpi] --output-filename, by which each rank has a file of its own, is Open MPI 4's")
        sys.exit(1 if "mpi" in os.environ.get("LOCKSTEP_REQUIRE", "").split(",") else SKIPPED)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
