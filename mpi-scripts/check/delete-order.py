#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deletes each event record, stream wait, synchronization and barrier of the code for GPUs in turn, in a copy of the
tree, and sees whether the tests on emulated GPUs notice.

  delete-order.py [--seeds N] [--list] [--only TEXT] [--tests REGEX]
    --seeds N       seeds to try beside those that CTest runs (default 12)
    --tests REGEX   tests of CTest that are tried instead of all of them, before more seeds

A line that can go without any test failing is printed as SURVIVED, and the exit status is 1: it is not needed, or a test is
missing. A line that ends with a comment "wait for timing only" or "no order needed: WHY" is left out. The copy and its build are in build/delete-order, where a second run goes on from."""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "delete-order"
COPY = WORK / "tree"
SOURCES = ["src/platform/gpu/gpu_cuda.cpp", "src/backends/nccl/*.cpp", "src/ddp/*.cpp", "kernels/cuda/*.cu",
           "src/ops/cuda/**/*.cu", "src/ops/cuda/**/*.cuh", "src/ops/cuda/**/*.cpp", "src/nn/**/*.cpp", "src/trainer/*.cpp",
           "src/trainer/*.hpp", "apps/comm-bench/*.cpp", "examples/*.cu"]

# What is deleted, and what takes its place.
ORDER = [
    (r"LOCKSTEP_CUDA_CHECK\(cuda(?:EventRecord|StreamWaitEvent|(?:Device|Stream|Event)Synchronize)\([^;]*\)\);", ";"),
    (r"[\w.\->()]+(?:\.|->)(?:record|hold_back|synchronize)\([^;{}]*\);", ";"),
    (r"\bcheck\(cuda(?:EventRecord|StreamWaitEvent|(?:Device|Stream|Event)Synchronize)\([^;]*\)(?:, *\"[^\"]*\")?\);", ";"),
    (r"\b__sync(?:threads|warp)\(\);", ";"),
    (r"(?<=\n) +(?:training\.)?wait\(\);", ";"),
    (r"[\w.\->()*]+(?:\.|->)order_before\((?:queue|stream)[^;{}]*\);", ";"),
    # Waits of the trainer, which polls a device.
    (r"[\w.\->()]*device[\w()]*(?:\.|->)wait\([^;{}]*queue\(\)\);", ";"),
    (r"\bbench_->wait\(\);", ";"),
    (r"while \([^;{}]*is_(?:idle|done)\([^;{}]*\)\) [\w.\->]*progress\(\);", ";"),
    (r"\b(?:data_)?parallel_\.finish_on\(queue\);", ";"),
    (r"\beverybody_waits_->(?:start|wait)\(\);", ";"),
    (r" \|\| busy\(\)", ""),
    (r"\bwait_until_idle\(\"[^\"]*\"\);", ";"),
]


class Deletion:
    def __init__(self, path, begin, end, text, instead, source):
        self.path, self.begin, self.end, self.text, self.instead = path, begin, end, text, instead
        self.place = f"{path}:{source.count(chr(10), 0, begin) + 1}: {' '.join(text.split())}"


def deletions():
    found = []
    for pattern in SOURCES:
        for file in sorted(ROOT.glob(pattern)):
            source = file.read_text()
            path = file.relative_to(ROOT)
            for expression, instead in ORDER:
                for match in re.finditer(expression, source):
                    line = source[source.rfind("\n", 0, match.start()) + 1 : match.start()]
                    is_definition = source[match.end() :].lstrip().startswith("{")
                    taken = any(d.path == path and d.begin <= match.start() < d.end for d in found)
                    behind = source[match.end() :].split("\n", 1)[0]
                    if "//" in line or any(reason in behind for reason in ("wait for timing only", "no order needed")) or is_definition or taken:
                        continue
                    found.append(Deletion(path, match.start(), match.end(), match.group(), instead, source))
    return found


def copy_tree():
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in names.stdout.decode().split("\0"):
        if not name or not (ROOT / name).is_file():
            continue
        to = COPY / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists() or to.read_bytes() != (ROOT / name).read_bytes():
            shutil.copy(ROOT / name, to)  # as a new file, which is compiled again


def run(*command):
    return subprocess.run(command, cwd=COPY, capture_output=True, text=True)


def build():
    result = run("cmake", "--build", "--preset", "emulated")
    return None if result.returncode == 0 else "the compiler"


def what_fails(seeds, tests):
    """The first test that notices; None where none does."""
    result = run("ctest", "--preset", "emulated", "--stop-on-failure", "--timeout", "120", "--tests-regex", tests)
    failed = re.search(r"\d+ - (\S+) \(", result.stdout[result.stdout.find("The following tests FAILED") :])
    if result.returncode != 0:
        return failed.group(1) if failed else "ctest"
    for seed in range(seeds):
        result = run("mpi-scripts/check/emulated-gpu.sh", "--first", str(100 + seed), "--seeds", "1")
        if result.returncode != 0:
            failed = re.search(r"\d+ - (\S+) \(", result.stdout)
            return f"seed {100 + seed}, {failed.group(1) if failed else 'emulated-gpu.sh'}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--list", action="store_true", help="print what would be deleted, and stop")
    parser.add_argument("--only", default="", help="deletions whose line contains this")
    parser.add_argument("--tests", default="", help="the tests of CTest that are tried, instead of all of them")
    options = parser.parse_args()
    wanted = [d for d in deletions() if options.only in d.place]
    if options.list:
        print("\n".join(d.place for d in wanted))
        return 0
    copy_tree()
    # A parameter that nobody uses any more is not to be what notices.
    for step in (["cmake", "--preset", "emulated", "-DLOCKSTEP_WERROR=OFF"], ["cmake", "--build", "--preset", "emulated"]):
        if run(*step).returncode != 0:
            sys.exit(f"the tree as it is does not build: see {' '.join(step)} in {COPY}")
    if (failed := what_fails(0, options.tests)) is not None:
        sys.exit(f"the tree as it is fails {failed}")
    survived = 0
    for deletion in wanted:
        begin = time.monotonic()
        file = COPY / deletion.path
        source = file.read_text()
        file.write_text(source[: deletion.begin] + deletion.instead + source[deletion.end :])
        try:
            caught = build() or what_fails(options.seeds, options.tests)
        finally:
            file.write_text(source)
        survived += caught is None
        print(f"{'SURVIVED' if caught is None else 'caught'}  {deletion.place}  "
              f"{'' if caught is None else 'by ' + caught}  ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{len(wanted) - survived} of {len(wanted)} deletions were noticed.")
    return 1 if survived else 0


sys.exit(main())
