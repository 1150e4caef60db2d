#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on two hosts by mpirun, srun and sbatch, and compares the bits with those of one host: cluster_test.py ROOT TRAIN

The hosts and their Slurm are those of local-cluster.sh, in which this program starts itself once more. One reference run serves
all comparisons. Where Slurm cannot be started, only mpirun is tried, unless LOCKSTEP_REQUIRE names "slurm"; and so on with
"namespaces" and "mnist".
"""
import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import pictures

ROOT, TRAIN = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
SKIPPED = 77
STEPS = 100
ACCURACY = 90  # percent of the test images
IMAGES = {"train": 6000, "t10k": 1000}  # of MNIST's, so that ranks need not read all
MNIST = pathlib.Path(os.environ.get("LOCKSTEP_DATA", ROOT.parent / "shared/data")) / "mnist"
MPIRUN = os.environ.get("MPIEXEC", "mpirun")
WITH_SLURM = os.environ.get("LOCKSTEP_CLUSTER") == "slurm"
# Where more ranks than slots are allowed, the launcher of Open MPI 5 starts all ranks on the first host.
os.environ.pop("PRTE_MCA_rmaps_default_mapping_policy", None)


def skipped(reason, message):
    """Returns the exit code of a skip, which is an error where LOCKSTEP_REQUIRE names the reason."""
    required = reason in os.environ.get("LOCKSTEP_REQUIRE", "").split(",")
    print(f"{'error: LOCKSTEP_REQUIRE names it: ' if required else ''}[{reason}] {message}", flush=True)
    return 1 if required else SKIPPED


def data(folder):
    """Options of the training data: the first of MNIST's images, or drawn ones where MNIST's files are missing."""
    if not MNIST.exists():
        return ["--dataset", "synthetic-digits"]
    for part, count in IMAGES.items():
        for kind, header, size in (("images-idx3-ubyte", 16, 28 * 28), ("labels-idx1-ubyte", 8, 1)):
            source = MNIST / f"{part}-{kind}"
            with source.open("rb") if source.exists() else gzip.open(f"{source}.gz") as file:
                content = file.read(header + count * size)
            (folder / source.name).write_bytes(content[:4] + count.to_bytes(4, "big") + content[8:])
    return ["--dataset", "mnist", "--data-dir", str(folder)]


def run(*command, timeout=240):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout)


def result_of(output):
    """The checksum of the weights, and the accuracy in percent, that train prints at the end."""
    weights = re.search(r"(?m)^weights sha256 ([0-9a-f]{64})$", output)
    accuracy = re.search(r"(?m)^test accuracy (\d+\.\d+) %", output)
    return weights and weights[1], accuracy and float(accuracy[1])


def until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what()}")
        time.sleep(0.2)


def text_of(path):
    return path.read_text() if path.exists() else ""


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.directory.name)
        cls.options = ["--model", "lenet", "--device", "cpu", "--batch", "32", "--steps", str(STEPS), "--shards", "4", "--threads", "1",
                       *data(cls.folder)]
        if WITH_SLURM:
            cls.submit_batch_job()
        cls.reference = run(MPIRUN, "-n", "2", TRAIN, *cls.options, "--save-dir", "none")

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    @classmethod
    def submit_batch_job(cls):
        """Starts a run that stops when it has saved its first checkpoint, so that the time limit comes near without work.

        Each task's output stays open for a while after its program has ended, and longest on the last rank, so that Slurm ends the
        other ranks' tasks while they wait for it: nothing that the shell says of that may be in the ranks' logs.
        """
        program = cls.folder / "train"
        program.write_text('#!/bin/sh\nlast=$RUNS/train-$SLURM_JOB_ID/checkpoints/last\n'
                           '[ "${SLURM_RESTART_COUNT:-0}" != 0 ] || '
                           '{ until [ -e "$last" ]; do sleep 0.02; done; kill -STOP $$; } >/dev/null 2>&1 &\n'
                           '(trap "" TERM; while kill -0 $$; do sleep 0.05; done; sleep 1.$((2 * SLURM_PROCID))) 2>/dev/null &\n'
                           'echo "$SLURM_PMIX_FENCE $SLURM_PMIX_DIRECT_CONN" >$RUNS/pmix\n'
                           f'exec {TRAIN} "$@"\n')
        program.chmod(0o755)
        os.environ |= {"RUNS": str(cls.folder), "CPUS_PER_RANK": "1", "TRAIN": str(program)}
        # Slurm looks at the limits every 30 s, and so signals the first run within 30 s of its start.
        submitted = run("sbatch", "--parsable", "--nodes=2", "--time=1", "--signal=B:USR1@60", f"--output={cls.folder}/batch.out",
                        ROOT / "mpi-scripts/train.sbatch", *cls.options, "--save-steps", "10")
        assert submitted.returncode == 0, submitted.stderr
        cls.job = submitted.stdout.strip()

    def state(self, *files):
        return run("scontrol", "show", "job", self.job).stdout + "".join(map(text_of, files))

    def expect_reference(self, output):
        """The same bits as one host's, and trained."""
        weights, accuracy = result_of(self.reference.stdout)
        self.assertIsNotNone(weights, self.reference.stdout + self.reference.stderr)
        self.assertGreaterEqual(accuracy, ACCURACY)
        self.assertEqual(result_of(output), (weights, accuracy), output)

    def expect_table(self, output):
        """Two ranks on each host, in the order of the hosts."""
        self.assertRegex(output, r"(?m)^4 ranks on 2 nodes$")
        for host, first in (("host1", 0), ("host2", 2)):
            table = f"(?m)^{host}: 1 × .*" + "".join(rf"\n +{first + local} +{local} +\d+  cores .*" for local in (0, 1)) + "\n(?! +[0-9])"
            self.assertRegex(output, table)

    def test_1_mpirun(self):
        result = run(MPIRUN, "-H", "host1:2,host2:2", "-n", "4", TRAIN, *self.options, "--checksum", "--save-dir", "none")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.expect_table(result.stdout)
        self.expect_reference(result.stdout)

    @unittest.skipUnless(WITH_SLURM, "there is no Slurm")
    def test_2_a_batch_job_is_signaled_and_goes_on(self):
        batch = self.folder / "batch.out"
        log = self.folder / f"train-{self.job}/logs/workerlog.0"
        until(lambda: "The time limit is near" in text_of(batch), 90, lambda: "the signal before the time limit\n" + self.state(batch, log))
        # The second run is given more time: with the same limit it, too, would be signaled if it still ran at Slurm's next look.
        updated = run("scontrol", "update", f"JobId={self.job}", "TimeLimit=60")
        self.assertEqual(updated.returncode, 0, updated.stderr)
        self.assertEqual(run("scancel", "--signal=CONT", self.job).returncode, 0)
        until(lambda: text_of(batch).count("\nweights sha256 ") == 2, 90, lambda: "the end of the second run\n" + self.state(batch, log))
        until(lambda: "JobState=COMPLETED" in self.state(), 30, lambda: "the end of the job\n" + self.state(batch, log))
        self.assertIn("The job is queued again.", text_of(batch))
        self.assertEqual(text_of(self.folder / "pmix"), "ring false\n")
        logs = [text_of(self.folder / f"train-{self.job}/logs/workerlog.{rank}") for rank in range(4)]
        for rank, lines in enumerate(logs):
            stamp = rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}}Z rank {rank} on host{rank // 2 + 1}: "
            self.assertRegex(lines, rf"\A(({stamp}|slurmstepd).*\n)+\Z")
            self.assertRegex(lines, rf"(?m)^{stamp}epoch 1")
        logs[0] = re.sub(r"(?m)^\S+Z rank 0 on host1: ", "", logs[0])
        self.assertEqual(logs[0].count("4 ranks on 2 nodes"), 2, logs[0])
        stopped, resumed = logs[0].split("resumed from ")
        self.assertIn("stopped by SIGTERM", stopped)
        self.expect_reference(resumed)

    @unittest.skipUnless(WITH_SLURM, "there is no Slurm")
    def test_3_srun(self):
        result = run("srun", "-N2", "-n4", TRAIN, *self.options, "--save-dir", "none")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.expect_table(result.stdout)
        self.expect_reference(result.stdout)

    @unittest.skipUnless(WITH_SLURM, "there is no Slurm")
    def test_4_srun_with_a_wrong_plugin_is_explained(self):
        for plugin, said in (("none", r"srun started 4 processes \(SLURM_STEP_NUM_TASKS=4\) without a PMI plugin"),
                             ("pmi2", r"`srun --mpi=pmi2` started 4 processes \(SLURM_STEP_NUM_TASKS=4\) with a PMI plugin that this MPI library "
                                      "cannot use")):
            result = run("srun", "-N2", "-n4", f"--mpi={plugin}", TRAIN, *self.options)
            self.assertNotEqual(result.returncode, 0)
            self.assertEqual(len(re.findall("(?m)^train: ", result.stderr)), 1, result.stderr)
            self.assertRegex(result.stderr, f"(?m)^train: rank 0 on host1: mismatch: {said}.*`srun --mpi=pmix`.*`srun --mpi=list`")

    @unittest.skipUnless(WITH_SLURM, "there is no Slurm")
    def test_5_an_array_has_a_task_for_each_gpu(self):
        program = self.folder / "show"
        program.write_text('#!/bin/sh\necho "$(hostname) $SLURM_PROCID of $SLURM_NTASKS, $SLURM_GPUS_ON_NODE GPUs: $*"\n')
        program.chmod(0o755)
        os.environ["TRAIN"] = str(program)
        result = run("sbatch", "--parsable", "--wait", "--nodes=2", "--gpus-per-node=2", "--array=7-8", f"--output={self.folder}/array-%a.out",
                     ROOT / "mpi-scripts/train.sbatch", "--model", "a b")
        self.assertEqual(result.returncode, 0, result.stderr)
        job = result.stdout.strip()
        for task in ("7", "8"):
            folder = self.folder / f"train-{job}_{task}"
            logs = sorted(path.name for path in (folder / "logs").iterdir())
            self.assertEqual(logs, [f"workerlog.{rank}" for rank in range(4)])
            self.assertRegex(text_of(folder / "logs/workerlog.3"),
                             rf"\A\S+Z rank 3 on host2: host2 3 of 4, 2 GPUs: --model a b --seed {task} --save-dir {folder} --resume auto\n\Z")

    @unittest.skipUnless(WITH_SLURM, "there is no Slurm")
    def test_6_a_program_that_one_node_lacks_is_named(self):
        copied = run("ssh", "host1", "cp", self.folder / "show", "/run/local/show")  # a folder of host1's own
        self.assertEqual(copied.returncode, 0, copied.stderr)
        os.environ["TRAIN"] = "/run/local/show"
        result = run("sbatch", "--wait", "--nodes=2", f"--output={self.folder}/missing.out", ROOT / "mpi-scripts/train.sbatch")
        self.assertEqual(result.returncode, 127, result.stderr)
        self.assertIn("\nshow: host2 has no program /run/local/show, which must be valid on every node\n", text_of(self.folder / "missing.out"))

    def test_7_each_workload(self):
        """The same bits and the same metrics on one host, by mpirun on two and by srun."""
        lines = [[MPIRUN, "-n", "1"], [MPIRUN, "-H", "host1:2,host2:2", "-n", "4"]] + ([["srun", "-N2", "-n4"]] if WITH_SLURM else [])
        for make, options, metrics in (
                (pictures.bccd, ["--model", "yolov5n", "--img", "96", "--nominal-batch", "off"], "loss map50 map"),
                (pictures.nuclei, ["--model", "pp-liteseg", "--img", "64", "--eval-scale", "0.25", "--sync-bn"], "loss miou accuracy"),
                (pictures.numbered, ["--model", "crnn-mv3", "--img", "32x64"], "loss accuracy ned")):
            with self.subTest(model=options[1]), tempfile.TemporaryDirectory(dir=self.folder) as folder:
                options += ["--data", make(pathlib.Path(folder), ROOT), "--batch", "4", "--epochs", "2", "--shards", "4", "--threads", "1",
                            "--device", "cpu", "--save-dir", "none"]
                results = [run(*line, TRAIN, *options) for line in lines]
                for result in results:
                    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                ends = [re.findall(rf"(?m)^test (?:{metrics.replace(' ', '|')}) .*|^weights sha256 .*", result.stdout) for result in results]
                self.assertEqual(len(ends[0]), 1 + len(metrics.split()), results[0].stdout)
                self.assertEqual(ends[1:], ends[:1] * (len(ends) - 1))

    def test_8_a_progress_thread_takes_a_processor_that_is_free(self):
        """It is there by itself where messages leave the host and each rank has a processor for it. It changes no bits."""
        processors = len(os.sched_getaffinity(0))
        self.assertGreater(processors, 1)
        weights = set()
        for ranks, threads, options, expected in (("host1,host2", processors - 1, [], True), ("host1,host2", processors, [], False),
                                                  ("host1:2", 1, [], False), ("host1,host2", processors, ["--progress-thread"], True),
                                                  ("host1,host2", processors - 1, ["--progress-thread", "no"], False)):
            with self.subTest(ranks=ranks, threads=threads, options=options):
                result = run(MPIRUN, "--bind-to", "none", "-H", ranks, "-n", "2", TRAIN, "--dataset", "synthetic-digits", "--steps", "2",
                             "--shards", "2", "--threads", str(threads), "--device", "cpu", "--save-dir", "none", *options)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertEqual(", progressed by a thread\n" in result.stdout, expected, result.stdout)
                weights.add(result_of(result.stdout)[0])
        self.assertNotIn(None, weights)
        self.assertEqual(len(weights), 1)


def in_cluster(*options):
    """Runs this program in a cluster. Returns its exit code, and why there is none."""
    command = [ROOT / "mpi-scripts/local-cluster.sh", "run", "--hosts", "2", *options, sys.executable, *sys.argv]
    environment = os.environ | {"LOCKSTEP_CLUSTER": "slurm" if "--slurm" in options else "hosts"}
    result = subprocess.run(list(map(str, command)), env=environment, stderr=subprocess.PIPE, text=True)
    return result.returncode, result.stderr


def main():
    if "LOCKSTEP_CLUSTER" in os.environ:
        unittest.main(argv=sys.argv[:1], verbosity=2)
    version = run(MPIRUN, "--version")
    if not re.search("Open ?MPI|OpenRTE|PRTE", version.stdout + version.stderr):
        return skipped("mpi", "between namespaces of one machine MPICH now and then does not return from MPI_Finalize")
    if not MNIST.exists() and skipped("mnist", "MNIST's files are missing: drawn digits take their place") != SKIPPED:
        return 1
    code, message = in_cluster("--slurm", "--gpus", "2")
    if code == SKIPPED and "Slurm cannot be started" in message:
        if skipped("slurm", message) != SKIPPED:
            return 1
        code, message = in_cluster()
    print(message, file=sys.stderr)
    return skipped("namespaces", message) if code == SKIPPED else code


if __name__ == "__main__":
    sys.exit(main())
