#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts train by launch.sh as users of other launchers would, on hosts made of namespaces.

    launch_test.py ROOT TRAIN EMULATED_TRAIN [CLASS...]

EMULATED_TRAIN computes on emulated GPUs, without which only the runs on CPUs are tried: give TRAIN once more then. CLASS is
a class of tests below.
"""
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

import pictures

ROOT, TRAIN, EMULATED = (pathlib.Path(word) for word in sys.argv[1:4])
SKIPPED = 77
IS_OPEN_MPI = re.search("Open ?MPI|OpenRTE|PRRTE", subprocess.run([os.environ.get("MPIEXEC", "mpirun"), "--version"], capture_output=True,
                                                                text=True).stdout) is not None


def on_hosts(hosts, folder, words, unset=""):
    """Runs launch.sh beside so many hosts, where "train" is in PATH, without a variable."""
    command = [ROOT / "mpi-scripts/local-cluster.sh", "run", "--hosts", str(hosts), ROOT / "mpi-scripts/launch.sh", *words]
    environment = os.environ | {"PATH": f"{folder}/bin:{TRAIN.parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1",
                                "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
    environment.pop(unset, None)
    result = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    # The ranks of a host wait in UCX for one that has already left it, until their watchdogs end them.
    if not IS_OPEN_MPI and "weights sha256" in result.stdout and "MPI_Finalize has not returned" in result.stderr:
        raise unittest.SkipTest("[mpi] the run was complete, and MPICH did not return from MPI_Finalize, as now and then between namespaces "
                                "of one machine")
    if result.returncode == SKIPPED:
        print(result.stderr)
        sys.exit(SKIPPED)
    return result


class EmulatedGpus(unittest.TestCase):
    """Hosts with emulated GPUs, where train computes on them."""

    @classmethod
    def setUpClass(cls):
        if TRAIN == EMULATED:
            raise unittest.SkipTest("there are no emulated GPUs in this build")
        cls.directory = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.directory.name)
        (cls.folder / "bin").mkdir()
        # Each host has GPUs of its own.
        machine = pathlib.Path(ROOT, "tests/emulated_gpu/machines/eight_gpus.json").read_text()
        for number, host in enumerate([socket.gethostname(), "host1", "host2", "host3", "host4"]):
            (cls.folder / f"{host}.json").write_text(machine.replace("-1111-", f"-111{number}-"))
        program = cls.folder / "bin/train"
        program.write_text(f'#!/bin/sh\nEMULATED_GPU_MACHINE={cls.folder}/$(hostname).json exec {EMULATED} "$@"\n')
        program.chmod(0o755)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def train(self, hosts, line, ranks, nodes):
        # The machine may have other GPUs than the emulated ones, which are those that the checks before a start would find.
        checks = ["--no-preflight"] if shutil.which("nvidia-smi") else []
        result = on_hosts(hosts, self.folder, [*checks, *line.split()])
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, f"(?m)^{ranks} ranks on {nodes} nodes?$")
        self.assertEqual(len(re.findall(r" GPU \d+ NVIDIA", result.stdout)), ranks, result.stdout)
        self.assertRegex(result.stdout, r"weights sha256 [0-9a-f]{64}")
        return result


class OnGpus(EmulatedGpus):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.config = cls.folder / "run.conf"
        cls.config.write_text("model = lenet\nsteps = 2\nbatch = 8\nwarmup = 0\n"
                              "eval-interval = never\nsave-dir = none\n")

    def test_1_fleetrun_on_one_host(self):
        self.train(1, f"--selected_gpu 0,1 tools/train.py -c {self.config} --eval", 2, 1)

    def test_2_fleetrun_on_four_hosts(self):
        hosts = ",".join(f"10.77.0.{number}" for number in range(1, 5))
        result = self.train(4, f"fleetrun --ips={hosts} --selected_gpu 3 tools/train.py -c {self.config}", 4, 4)
        self.assertRegex(result.stdout, r"(?m)^ +0 +0 +\d+ +GPU 3 ")
        self.assertRegex(result.stdout, r"(?m)^host1: ")  # the first host has rank 0

    def test_3_paddle_with_logs(self):
        self.train(2, f"python3 -m paddle.distributed.launch --log_dir={self.folder}/log/ --ips=10.77.0.1,10.77.0.2 --gpus=0,1 tools/train.py "
                      f"-c {self.config}", 4, 2)
        logs = [(self.folder / f"log/workerlog.{rank}").read_text() for rank in range(4)]
        self.assertIn("4 ranks on 2 nodes", logs[0])

    def test_4_paddle_that_saves(self):
        result = self.train(1, f"python -m paddle.distributed.launch --log_dir={self.folder}/log/ --gpus 0,1 train.py --config {self.config} "
                               f"--save_dir {self.folder}/output/M --save_interval 1 --num_workers 3 --do_eval --use_vdl", 2, 1)
        self.assertIn("--save_interval is --save-steps", result.stderr)
        saved = sorted(path.name for path in (self.folder / "output/M/checkpoints").iterdir())
        self.assertEqual(saved, ["last", "step-00000001", "step-00000002"])

    def test_5_torchrun_goes_on_from_weights(self):
        weights = self.folder / "output/M/checkpoints/last/model.safetensors"
        self.train(1, f"python -m torch.distributed.run --nproc_per_node 2 train.py --config {self.config} --batch 64 --weights {weights} "
                      "--device 0,1 --sync-bn --save-dir none", 2, 1)


class WorkloadsOnGpus(EmulatedGpus):
    def test_boxes(self):
        """The command lines of PaddleDetection and YOLOv5, each with a data set of boxes."""
        data = pictures.bccd(self.folder, ROOT)
        config = self.folder / "boxes.conf"
        config.write_text(f"model = yolov5n\ndata = {data}\nimg = 32\nbatch = 2\nsteps = 1\neval-interval = never\nsave-dir = none\n")
        for line, ranks, nodes in (
                (f"fleetrun --selected_gpu 0,1 tools/train.py -c {config} --eval", 2, 1),
                (f"fleetrun --ips=10.77.0.1,10.77.0.2 --selected_gpu 0 tools/train.py -c {config}", 2, 2),
                (f"python -m torch.distributed.run --nproc_per_node 2 train.py --batch 2 --data {data} --weights= --device 0,1 --sync-bn "
                 "--epochs 1 --img 32 --model yolov5n --steps 1 --eval-interval never --save-dir none", 2, 1)):
            with self.subTest(line=line):
                self.assertIn("(8 training", self.train(nodes, line, ranks, nodes).stdout)

    def test_masks_and_texts(self):
        """The command lines of PaddleSeg and PaddleOCR, each with its workload."""
        for make, model, more in ((pictures.nuclei, "pp-liteseg", "img = 64\n"), (pictures.numbered, "crnn-mv3", "img = 32x64\n")):
            with self.subTest(model=model), tempfile.TemporaryDirectory(dir=self.folder) as folder:
                data = make(pathlib.Path(folder), ROOT)
                config = data / "run.conf"
                config.write_text(f"model = {model}\ndata = {data}\nbatch = 4\nsteps = 1\neval-interval = never\nsave-dir = none\n{more}")
                for line, ranks, nodes in (
                        (f"fleetrun --selected_gpu 0,1 tools/train.py -c {config} --eval", 2, 1),
                        (f"fleetrun --ips=10.77.0.1,10.77.0.2 --selected_gpu 0 tools/train.py -c {config}", 2, 2),
                        (f"python3 -m paddle.distributed.launch --log_dir={folder}/log/ --ips=10.77.0.1,10.77.0.2 --gpus=0 "
                         f"tools/train.py -c {config} --do_eval --num_workers 1", 2, 2)):
                    self.assertIn("(8 training", self.train(nodes, line, ranks, nodes).stdout)


class OnCpus(unittest.TestCase):
    def test_the_cluster_stays_in_the_callers_folder_and_waits_after_ctrl_c(self):
        with tempfile.TemporaryDirectory() as folder:
            script = "trap 'sleep 1; echo saved; exit 3' INT; echo; sleep 60 & wait"
            job = subprocess.Popen([ROOT / "mpi-scripts/local-cluster.sh", "run", "bash", "-c", f"pwd -P; {script}"], cwd=folder,
                                   stdout=subprocess.PIPE, text=True, start_new_session=True)
            self.assertEqual(job.stdout.readline().strip(), os.path.realpath(folder))
            job.stdout.readline()
            os.killpg(job.pid, signal.SIGINT)  # as a terminal does
            self.assertEqual(job.communicate(timeout=60)[0], "saved\n")
            self.assertEqual(job.returncode, 3)

    def test_a_host_that_is_not_there_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            result = on_hosts(2, folder, f"-H host1,host9 -np 2 {TRAIN} --device cpu".split())
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("host9", result.stdout + result.stderr)


class WorkloadsOnCpus(unittest.TestCase):
    def test_mpiruns_own(self):
        for make, model, img in ((pictures.nuclei, "pp-liteseg", "64"), (pictures.numbered, "crnn-mv3", "32x64")):
            with self.subTest(model=model), tempfile.TemporaryDirectory() as folder:
                data = make(pathlib.Path(folder), ROOT)
                line = f"-H host1,host2 -np 4 {TRAIN} --device cpu --data {data} --model {model} --img {img} --batch 4 --steps 2 --save-dir none"
                result = on_hosts(2, folder, line.split())
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertRegex(result.stdout, r"(?m)^4 ranks on 2 nodes$")
                self.assertIn("(8 training", result.stdout)
                self.assertRegex(result.stdout, r"weights sha256 [0-9a-f]{64}")


# Stops its own rank on host2 once the first checkpoint has been saved.
STOPPING_TRAIN = """#!/bin/sh
if [ "$(hostname)" = host2 ]; then
  (until [ -e {folder}/run/checkpoints/step-00000010 ] || ! kill -0 $$; do sleep 0.01; done; kill -STOP $$) </dev/null >/dev/null 2>&1 &
fi
exec {train} "$@"
"""

# Kills its own rank on host2, when a further checkpoint has been saved, in each of its starts.
MORTAL_TRAIN = """#!/bin/sh
if [ "$(hostname)" = host2 ]; then
  echo start >>{folder}/starts
  n=$(wc -l <{folder}/starts)
  echo "start $n of rank $OMPI_COMM_WORLD_RANK"
  (until [ -e {folder}/run/checkpoints/step-000000${{n}}0 ] || ! kill -0 $$; do sleep 0.01; done; kill -9 $$) </dev/null >/dev/null 2>&1 &
fi
exec {train} "$@"
"""


def write_digits(folder):
    """A small data set with the files of MNIST."""
    folder.mkdir()
    for part, number in (("train", 64), ("t10k", 16)):
        pixels = bytes(i * 7 % 256 for i in range(number * 28 * 28))
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, number, 28, 28) + pixels)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, number) + bytes(i % 10 for i in range(number)))


class Failures(unittest.TestCase):
    @unittest.skipUnless(IS_OPEN_MPI, "MPICH's launcher does not say which rank was killed")
    def test_a_killed_run_goes_on_without_the_host_that_failed_twice(self):
        """With the same bits at the end as a run that nobody has disturbed."""
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory)
            (folder / "bin").mkdir()
            (folder / "bin/train").write_text(MORTAL_TRAIN.format(folder=folder, train=TRAIN))
            (folder / "bin/train").chmod(0o755)
            write_digits(folder / "data")
            options = f"--device cpu --model lenet --dataset mnist --data-dir {folder}/data --batch 16 --steps 120 --epochs 30 --save-steps 10 --save-interval never --keep 100 --eval-interval never --warmup 0 --shards 4".split()
            result = on_hosts(2, folder, [*f"--max_restart 3 --log_dir {folder}/log -H host1,host2 -np 2 train --save-dir {folder}/run".split(), *options])
            undisturbed = subprocess.run([TRAIN, *options, "--threads", "1", "--save-dir", "none"], capture_output=True, text=True, timeout=200)
            logs = [(folder / f"log/workerlog.{rank}").read_text() for rank in range(2)]
            starts = (folder / "starts").read_text()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(re.search("weights sha256 .*", result.stdout).group(), re.search("weights sha256 .*", undisturbed.stdout).group())
        self.assertEqual(len(re.findall("lockstep-launch: rank 1 on host2 was ended by SIGKILL", result.stderr)), 2, result.stderr)
        self.assertRegex(result.stderr, r"lockstep-launch: the last lines of \S+/workerlog.1 on host2:\n\S+Z rank 1 on host2: start")
        self.assertIn("host2 failed 2 times or cannot be reached, and is left out: 1 rank trains on, with the same global batch", result.stderr)
        self.assertEqual(re.findall(r"(?m)^(\d) ranks? on (\d) nodes?$", result.stdout), [("2", "2"), ("2", "2"), ("1", "1")])
        self.assertRegex(logs[0], r"(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z rank 0 on host1: weights sha256")
        self.assertEqual(len(starts.splitlines()), 2)

    def test_each_log_says_what_all_ranks_did_when_one_hung(self):
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory)
            (folder / "bin").mkdir()
            (folder / "bin/train").write_text(STOPPING_TRAIN.format(folder=folder, train=TRAIN))
            (folder / "bin/train").chmod(0o755)
            line = f"--log_dir {folder}/log -H host1:2,host2 -np 3 train --save-dir {folder}/run --device cpu --model lenet --batch 24 --epochs 1000 --save-steps 10 --comm-timeout 5"
            result = on_hosts(2, folder, line.split())
            logs = [(folder / f"log/workerlog.{rank}").read_text() for rank in range(2)]
        self.assertEqual(result.returncode, 4, result.stdout + result.stderr)
        self.assertRegex(logs[1], r"(?m)^\S+Z rank 1 on host1: epoch 1  step 1$")
        self.assertNotIn("epoch 1  step 1\n", result.stdout)
        for log in logs:
            self.assertRegex(log, r"rank 2 on host2.*stopped")
            self.assertRegex(log, r"2 of 3 ranks")

    def test_threads_of_hosts_that_are_one_machine(self):
        """They share its processors, of which each host alone would take all for its ranks. (local-cluster.sh sets OMP_WAIT_POLICY.)"""
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory)
            (folder / "bin").mkdir()
            (folder / "bin/train").write_text('#!/bin/sh\necho "$OMP_NUM_THREADS $OMP_WAIT_POLICY $*"\n')
            (folder / "bin/train").chmod(0o755)
            ranks = 2 * len(os.sched_getaffinity(0))
            result = on_hosts(2, folder, ["-H", "host1,host2", "-np", str(ranks), "train"], "OMP_NUM_THREADS")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stdout.splitlines(), ["1 passive --threads 1"] * ranks)
        self.assertRegex(result.stderr, "warning: host1: host1 and host2 are one machine: [0-9]+ ranks take turns on [0-9]+ processors")
        self.assertRegex(result.stderr, "OMP_NUM_THREADS=1, for .* processors on host1 and host2 \\(one machine\\)")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], failfast=False, verbosity=2)
