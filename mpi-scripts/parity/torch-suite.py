#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own tests of back ends, DistributedTest of the installed package, for lockstep and for Gloo, and writes a table.

  torch-suite.py TABLE.csv [--ranks 3] [--only TEXT] [--backends lockstep,gloo]

Each line of TABLE.csv has a test, and for each back end whether it passed, or was skipped, or failed, and why. The ranks of a job run
many tests, one after the other; where one fails or hangs, a new job goes on behind it. torch-c10d.sh describes the environment.
"""
import argparse
import contextlib
import csv
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

PATIENCE = 90  # seconds without an outcome, after which a job is ended


def one_line(text, most=160):
    return " ".join(text.split())[:most]


# --- a rank ---

def suite():
    """The class of PyTorch's tests, which are for the back end of the environment."""
    from torch.testing._internal import common_distributed, common_utils
    features = common_distributed.DistTestCases
    for feature in ("ddp", "subgroup", "plugin"):
        features.backend_feature[feature].add("lockstep")
    features.skip_collective["sendrecv anysource"].add("lockstep")
    from torch.testing._internal.distributed import distributed_test

    class Tests(common_utils.TestCase, distributed_test.DistributedTest._DistTestBase):
        @property
        def rank(self):
            return int(os.environ["RANK"])

        @property
        def world_size(self):
            return int(os.environ["WORLD_SIZE"])
    return Tests, distributed_test.Barrier, common_distributed.TEST_SKIPS


def outcome_of(case, skips):
    import unittest
    result = unittest.TestResult()
    with contextlib.redirect_stdout(io.StringIO()):
        case.run(result)
    if result.errors or result.failures:
        lines = (result.errors + result.failures)[0][1].strip().splitlines()
        why = next((line for line in reversed(lines) if "Error: " in line), lines[-1])
        # Some of PyTorch's decorators skip by an exit code.
        skip = next((skip for skip in skips.values() if why == f"SystemExit: {skip.exit_code}"), None)
        return ("failed", why) if skip is None else ("skipped", skip.message)
    return ("skipped", result.skipped[0][1]) if result.skipped else ("passed", "")


def run_rank(folder, names):
    import datetime

    import torch.distributed as dist
    tests, barrier, skips = suite()
    for name in names:
        dist.init_process_group(os.environ["BACKEND"], init_method=f"file://{folder}/init-{name}", rank=int(os.environ["RANK"]),
                                world_size=int(os.environ["WORLD_SIZE"]), timeout=datetime.timedelta(seconds=60))
        if os.environ["RANK"] == "0":
            barrier.init()  # removes the files of all ranks
        barrier.barrier_id = 0
        dist.barrier()
        outcome, reason = outcome_of(tests(name), skips)
        (folder / f"{name}.{os.environ['RANK']}").write_text(f"{outcome}\n{one_line(reason)}")
        if outcome == "failed":
            os._exit(1)  # the others may wait for this rank
        dist.barrier()
        dist.destroy_process_group()


# --- the job ---

def names_of(only):
    import subprocess
    code = ("import sys; sys.path.insert(0, sys.argv[1]); import importlib; "
            "suite = importlib.import_module('torch-suite').suite()[0]; "
            "print('\\n'.join(name for name in dir(suite) if name.startswith('test_')))")
    environment = os.environ | {"BACKEND": "gloo", "WORLD_SIZE": "3", "TEMP_DIR": tempfile.gettempdir(), "RANK": "0"}
    output = subprocess.run([sys.executable, "-c", code, str(pathlib.Path(__file__).parent)], env=environment, text=True,
                            stdout=subprocess.PIPE, check=True).stdout
    return [name for name in output.split() if only in name]


def outcomes_of(backend, names, ranks):
    """The outcome and the reason of each test, by its name."""
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        while left := [name for name in names if name not in found]:
            for place in ("barrier", "test_dir"):
                shutil.rmtree(folder / place, ignore_errors=True)
                (folder / place).mkdir()
            for stale in folder.glob("init-*"):
                stale.unlink()
            environment = os.environ | {"BACKEND": backend, "WORLD_SIZE": str(ranks), "TEMP_DIR": temporary, "OMP_NUM_THREADS": "1"}
            launcher = shutil.which(os.environ.get("MPIEXEC", "mpirun"))
            job = subprocess.Popen([launcher, "-n", str(ranks), sys.executable, __file__, "--rank", temporary, *left], env=environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            changed = time.time()
            while job.poll() is None:
                time.sleep(0.2)
                done = [name for name in left if name not in found and all((folder / f"{name}.{rank}").exists() for rank in range(ranks))]
                for name in done:
                    found[name] = summary([(folder / f"{name}.{rank}").read_text() for rank in range(ranks)])
                    changed = time.time()
                    print(f"{backend:9} {found[name][0]:8} {name}  {found[name][1]}", flush=True)
                if time.time() - changed > PATIENCE:
                    job.kill()
                    break
            job.wait()
            # The first one without an outcome of all ranks is the one that ended the job.
            rest = [name for name in left if name not in found]
            if rest:
                texts = [path.read_text() for path in sorted(folder.glob(f"{rest[0]}.[0-9]*"))]
                failed = [text for text in texts if text.startswith("failed")]
                found[rest[0]] = summary(failed) if failed else ("failed", "the ranks wait for each other, or have ended")
                print(f"{backend:9} {found[rest[0]][0]:8} {rest[0]}  {found[rest[0]][1]}", flush=True)
    return found


def summary(texts):
    """What counts of the outcomes of all ranks."""
    rows = [text.split("\n", 1) for text in texts]
    for wanted in ("failed", "passed", "skipped"):
        for outcome, reason in rows:
            if outcome == wanted:
                return outcome, reason
    return "failed", "no outcome"


def main():
    if sys.argv[1:2] == ["--rank"]:
        os.environ.setdefault("RANK", os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0")))
        return run_rank(pathlib.Path(sys.argv[2]), sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--backends", default="lockstep,gloo")
    options = parser.parse_args()
    names, backends = names_of(options.only), options.backends.split(",")
    found = {backend: outcomes_of(backend, names, options.ranks) for backend in backends}
    with options.table.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["test", *(column for backend in backends for column in (backend, f"{backend}: why"))])
        table.writerows([name, *(column for backend in backends for column in found[backend][name])] for name in names)
    for backend in backends:
        outcomes = [outcome for outcome, _ in found[backend].values()]
        print(backend + ": " + ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in sorted(set(outcomes))))
    return None


if __name__ == "__main__":
    main()
