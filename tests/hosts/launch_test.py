#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts train by launch.sh as users of other launchers would, on hosts made of namespaces: launch_test.py ROOT TRAIN EMULATED_TRAIN

EMULATED_TRAIN computes on emulated GPUs, without which only the runs on CPUs are tried: give TRAIN once more then.
"""
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT, TRAIN, EMULATED = (pathlib.Path(word) for word in sys.argv[1:4])
SKIPPED = 77


def on_hosts(hosts, folder, words):
    """Runs launch.sh beside so many hosts, where "train" is in PATH."""
    command = [ROOT / "mpi-scripts/local-cluster.sh", "run", "--hosts", str(hosts), ROOT / "mpi-scripts/launch.sh", *words]
    environment = os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}", "OMP_NUM_THREADS": "1",
                                "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
    result = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    if result.returncode == SKIPPED:
        print(result.stderr)
        sys.exit(SKIPPED)
    return result


@unittest.skipIf(TRAIN == EMULATED, "there are no emulated GPUs in this build")
class OnGpus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
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
        cls.config = cls.folder / "run.conf"
        cls.config.write_text("model = lenet\nsteps = 2\nbatch = 8\nwarmup = 0\n"
                              "eval-interval = never\nsave-dir = none\n")

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def train(self, hosts, line, ranks, nodes):
        result = on_hosts(hosts, self.folder, line.split())
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, f"(?m)^{ranks} ranks on {nodes} nodes?$")
        self.assertEqual(len(re.findall(r" GPU \d+ NVIDIA", result.stdout)), ranks, result.stdout)
        self.assertRegex(result.stdout, r"weights sha256 [0-9a-f]{64}")
        return result

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


class OnCpus(unittest.TestCase):
    def test_mpiruns_own(self):
        with tempfile.TemporaryDirectory() as folder:
            line = f"-H host1,host2 -np 4 {TRAIN} --device cpu --steps 20 --eval-interval never --save-dir none"
            result = on_hosts(2, folder, line.split())
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"(?m)^4 ranks on 2 nodes$")

    def test_a_host_that_is_not_there_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            result = on_hosts(2, folder, f"-H host1,host9 -np 2 {TRAIN} --device cpu".split())
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("host9", result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], failfast=False)
