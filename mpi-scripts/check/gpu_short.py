#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The steps of gpu-short.sh, which describes them and their options, and prepares the environment."""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time

import compare_gpu
import kernel_budget

STATE = pathlib.Path("build/gpu-short")
PACKED = pathlib.Path("build/carry/programs.tar.xz")
RESULTS = ["steps.jsonl", "log.txt", "kernels.txt", "kernels-old.txt", "kernels-contest.txt", "ncu.csv", "budget.txt"]  # at most 8
MOST_BYTES = 16 << 20  # of a file of results
MOST_OF_A_LOG = 200_000  # characters of one program
METRICS = "gpu__time_duration.sum,dram__bytes.sum"
NEWEST = "*Norm*:*Pool*:*Bytes*"  # rows of cuda_ops_test whose kernels were changed last, which run first
NORMS = "BatchNormOnGpus.*:NormsOnGpus.*:SumsOnGpus.*"
LARGEST_DIFFERENCE = 1e-4  # of the losses of two libraries for CPUs, too
# By larger rates, two libraries for CPUs differ by more: batch norm over a few samples makes much of small differences.
RATES = {"lenet": 0.02, "resnet20": 0.0001, "unet": 0.001, "detector": 0.0001, "crnn": 0.003, "pp-liteseg": 1e-6,
         "mobilenet-v2": 1e-6}
OF_LOSSES = {"lenet": "synthetic-digits", "unet": "synthetic-masks", "detector": "synthetic-boxes", "crnn": "synthetic-words",
             "pp-liteseg": "synthetic-masks"}
ANCHORS = """
import json, sys, time, torch
device, small = sys.argv[1], sys.argv[2] == "small"
wait = torch.cuda.synchronize if device == "cuda" else lambda: None
def seconds(body):
    for _ in range(3): body()
    wait(); begin = time.perf_counter()
    for _ in range(10): body()
    wait(); return (time.perf_counter() - begin) / 10
a = torch.empty((1 << 22) if small else (1 << 32), dtype=torch.uint8, device=device); b = torch.empty_like(a)
copy = 2 * a.numel() / seconds(lambda: b.copy_(a))
n = 512 if small else 8192
x = torch.randn(n, n, device=device, dtype=torch.bfloat16); y = torch.randn_like(x)
rate = 2 * n**3 / seconds(lambda: x @ y)
print(json.dumps({"torch": torch.__version__, "copy_gb_per_second": round(copy / 1e9, 1), "matmul_tflops": round(rate / 1e12, 2)}))
"""


class Skipped(Exception):
    """A step cannot run here."""


class Failed(Exception):
    def __init__(self, reason, figures=None):
        super().__init__(reason)
        self.figures = figures or {}


class TimedOut(Failed):
    pass


def last_lines(text, count=3):
    return " | ".join(line.strip() for line in text.strip().splitlines()[-count:])[-600:]


def members_of(session):
    """The processes of a session: programs that mpirun starts have process groups of their own."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(stat.parent.name))
    return found


class Job:
    """A program and all that it starts, as a session that can be ended as a whole."""

    def __init__(self, arguments, environment, output):
        self.file = output.open("wb")
        self.process = subprocess.Popen([str(a) for a in arguments], stdin=subprocess.DEVNULL, stdout=self.file,
                                        stderr=subprocess.STDOUT, env=os.environ | environment, start_new_session=True)

    def has_ended(self, until):
        try:
            self.process.wait(max(0.1, until - time.time()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def members(self):
        return members_of(self.process.pid)

    def end(self):
        """Ends what is left of it."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.members():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            self.has_ended(time.time() + 3)
            for _ in range(30):
                if not self.members():
                    break
                time.sleep(0.1)
        self.file.close()


class Short:
    """Where a run stands, and what its steps share."""

    def __init__(self, options):
        self.options = options
        self.device = options.device
        self.small = options.small or options.device == "cpu"
        self.end = options.began + options.seconds
        self.step_end = self.end
        self.results = self.read_results()
        self.programs = options.programs or self.unpacked() or pathlib.Path("build/cuda")

    def read_results(self):
        """The newest line of each step."""
        with contextlib.suppress(FileNotFoundError):
            lines = [json.loads(line) for line in (STATE / "steps.jsonl").read_text().splitlines()]
            return {line["step"]: line for line in lines}
        return {}

    def unpacked(self):
        """The programs that traveled here, and the choices with them, which count where this run has made none yet."""
        if not PACKED.exists():
            return None
        folder = STATE / "programs"
        if not folder.exists() or folder.stat().st_mtime < PACKED.stat().st_mtime:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            with tarfile.open(PACKED, "r:xz") as packed:
                packed.extractall(folder)
            os.utime(folder)
        if (folder / "kernels.txt").exists() and not (STATE / "kernels.txt").exists():
            shutil.copy(folder / "kernels.txt", STATE / "kernels.txt")
        return folder

    def program(self, name):
        """@throws Skipped  if there is none"""
        emulated = ["tests/emulated_" + name] if self.small else []
        for path in (name, "bin/" + name, *emulated, *(f"tests/{room}_{name}" for room in ("ops", "backends", "lockstep"))):
            if (self.programs / path).is_file():
                return (self.programs / path).absolute()
        raise Skipped(f"there is no {name} in {self.programs}")

    def train(self):
        """The older program where the newer one's operators are wrong."""
        if self.results.get("ops", {}).get("outcome") == "failed":
            with contextlib.suppress(Skipped):
                return self.program("train-old")
        return self.program("train")

    def case(self, text, steps=None):
        return compare_gpu.Case("lenet:32" if self.small else text, self.device, 2 if self.small else steps)

    def figures(self, name):
        return self.results.get(name, {}).get("figures", {})

    def needs(self, tool):
        if self.device == "cpu":
            raise Skipped("it needs a GPU")
        if shutil.which(tool) is None:
            raise Skipped(f"there is no {tool} here")

    def log(self, text):
        with (STATE / "log.txt").open("a") as log:
            log.write(text)

    def job(self, arguments, **environment):
        self.log("\n$ " + " ".join(f"{k}={v}" for k, v in environment.items()) + " " + " ".join(map(str, arguments)) + "\n")
        return Job(arguments, environment, STATE / "output.txt")

    def output(self, log=True):
        text = (STATE / "output.txt").read_text(errors="replace")
        if log:
            cut = len(text) - MOST_OF_A_LOG
            begin, end = text[:MOST_OF_A_LOG // 4], text[-MOST_OF_A_LOG * 3 // 4:]
            self.log(text if cut <= 0 else f"{begin}\n[... {cut} characters ...]\n{end}")
        return text

    def run(self, *arguments, may_fail=False, **environment):
        """Runs a program until the step's time is over. @return what it printed, with its exit code where it may fail"""
        job = self.job(arguments, **environment)
        ended = job.has_ended(self.step_end)
        job.end()
        text = self.output()
        if not ended:
            raise TimedOut(f"{pathlib.Path(str(arguments[0])).name} was ended when the step's time was over")
        if may_fail:
            return text, job.process.returncode
        if job.process.returncode != 0:
            raise Failed(f"{pathlib.Path(str(arguments[0])).name} ended with {job.process.returncode}: {last_lines(text)}")
        return text

    def mpirun(self):
        return [os.environ.get("MPIEXEC") or shutil.which("mpirun") or "", "-n", 2, "--oversubscribe", "--bind-to", "none"]

    def two_ranks(self, *arguments):
        """The command of two ranks, which share the GPU, and which NCCL takes for ranks on two hosts."""
        if not self.mpirun()[0]:
            raise Skipped("there is no mpirun here")
        rank = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
        return [*self.mpirun(), "sh", "-c", f'NCCL_HOSTID=r{rank} exec "$@"', "sh", *arguments]

    def one_gpu(self):
        if self.device == "cpu":
            return {}
        return {"LOCKSTEP_TEST_SHARED_GPU": "1", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket",
                "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_DEBUG": "WARN"}


# --- steps: each returns its figures ---

def describe(short):
    figures = {"host_cpus": os.cpu_count(), "programs": str(short.programs)}
    for name in ("COMMIT", "COMMIT-OLD"):
        with contextlib.suppress(FileNotFoundError):
            figures[name.lower()] = (short.programs / name).read_text().strip()
    if short.device == "cpu" or short.small:
        return figures
    short.needs("nvidia-smi")
    query = "name,driver_version,memory.total,clocks.max.sm,power.limit"
    text = short.run("nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader")
    figures |= dict(zip(query.split(","), [word.strip() for word in text.strip().splitlines()[0].split(",")]))
    figures["compares"] = "with docs/gpu-results.md" if "H100" in figures["name"] else "old and new programs here only: no H100"
    return figures


def anchors(short):
    text, code = short.run(sys.executable, "-c", ANCHORS, short.device, "small" if short.small else "large", may_fail=True)
    if "No module named 'torch'" in text:
        raise Skipped("python3 imports no torch")
    if code != 0:
        raise Failed(last_lines(text))
    return json.loads(text.strip().splitlines()[-1])


def tests(short, name, *filters):
    """Runs a test program once for each filter. @throws Failed  with the tests that failed"""
    if short.device == "cpu":
        raise Skipped("it needs a GPU")
    program = short.program(name)
    required = {} if short.small else {"LOCKSTEP_REQUIRE": "gpu,cuda"}
    passed, failed, skipped, trouble = 0, [], 0, ""
    for one in filters or ("*",):
        try:
            text, code = short.run(program, "--gtest_filter=" + one, may_fail=True, **required)
        except TimedOut:
            text, code, trouble = short.output(log=False), 0, "the step's time was over"
        passed += len(re.findall(r"^\[       OK \] .* ms\)$", text, re.MULTILINE))
        skipped += len(re.findall(r"^\[  SKIPPED \] .* ms\)$", text, re.MULTILINE))
        failed += re.findall(r"^\[  FAILED  \] ([^ ,]+).* ms\)$", text, re.MULTILINE)
        if code not in (0, 77) and not failed:  # 77: all of them were skipped
            trouble = f"it ended with {code}: {last_lines(text)}"
        if trouble:
            break
    figures = {"passed": passed, "failed": failed, "skipped": skipped}
    if trouble or failed:
        raise (TimedOut if "time" in trouble else Failed)(trouble or f"{len(failed)} failed, first {failed[0]}", figures)
    return figures


def ops(short):
    return tests(short, "cuda_ops_test", NEWEST, "-" + NEWEST)


def ops_memcheck(short):
    """Where an operator is wrong, whether it reaches outside its memory."""
    rows = short.figures("ops").get("failed", [])
    if not rows:
        raise Skipped("no operator has failed")
    return sanitizer(short, "memcheck", rows[0])


def speed(short, text, program, kernels="kernels.txt", steps=None):
    """The images per second of a program's windows, by recorded choices where they suit it."""
    case, metrics, kernels = short.case(text, steps), STATE / "metrics.jsonl", STATE / kernels
    had_choices = kernels.exists()
    for attempt in ("recorded", "measured"):
        metrics.unlink(missing_ok=True)
        begin = time.time()
        output, code = short.run(*case.lockstep_command(program, kernels, metrics), may_fail=True)
        if code == 0:
            break
        if attempt == "measured" or not had_choices:
            raise Failed(f"it ended with {code}: {last_lines(output)}")
        kernels.rename(kernels.with_suffix(".refused"))  # choices of another program may be none of this one's
    windows = [round(rate, 1) for rate in compare_gpu.lockstep_windows(metrics, case.window)]
    figures = {"case": f"{case.model}:{case.batch}", "program": program.name,
               "images_per_second": round(compare_gpu.rate(windows), 1), "windows": windows, "whole_seconds": round(time.time() - begin, 1)}
    for name, pattern in (("gpu_memory", r"GPU memory:? *(.*)$"), ("kernels", r"kernels by \S+: (.*\))")):
        if found := re.search(pattern, output, re.MULTILINE):
            figures[name] = found[1].strip()
    return figures


def resnet50_old(short):
    if not (STATE / "kernels-old.txt").exists() and (STATE / "kernels.txt").exists():
        shutil.copy(STATE / "kernels.txt", STATE / "kernels-old.txt")
    return speed(short, "resnet50:256", short.program("train-old"), "kernels-old.txt", 10)


def resnet50(short):
    figures = speed(short, "resnet50:256", short.program("train"), steps=10)
    if old := short.figures("resnet50-old").get("images_per_second"):
        figures["of_old"] = round(figures["images_per_second"] / old, 3)
    return figures


def ncu(short):
    """One step, submitted operator by operator: the time and the DRAM bytes of each kernel."""
    short.needs("ncu")
    case, table = short.case("resnet50:256"), STATE / "ncu.csv"
    table.unlink(missing_ok=True)
    choices = ["--kernels", STATE / "kernels.txt"] if (STATE / "kernels.txt").exists() else []
    output, code = short.run(
        "ncu", "--metrics", METRICS, "--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "demangled",
        "--clock-control", "none", "--cache-control", "none", "--target-processes", "all", "--log-file", table,
        *case.training(short.train(), "--steps", 1, "--without-pass", "capture", *choices), may_fail=True)
    try:
        report = kernel_budget.report(table, case.model)
    except (OSError, ValueError) as error:
        told = table.read_text(errors="replace") if table.exists() else output
        raise Failed(f"ncu ended with {code}: {error}: {last_lines(told)}") from None
    (STATE / "budget.txt").write_text(report.text())
    return report.figures()


def explain(short):
    """In place of ncu's table where there is none."""
    if short.results.get("ncu", {}).get("outcome") == "passed":
        raise Skipped("ncu says more")
    case = short.case("resnet50:256")
    text = short.run(*case.training(short.train(), "--steps", 1, "--explain-step"))
    return {"operators": len(re.findall(r" %", text))}


def weights(short, command, **environment):
    text = short.run(*command, **environment)
    found = re.search(r"weights sha256 ([0-9a-f]+)", text)
    if found is None:
        raise Failed("it printed no 'weights sha256': " + last_lines(text))
    return found[1]


def equal(figures):
    """@throws Failed  unless all runs have ended with the same weights"""
    if len(set(figures.values())) != 1:
        raise Failed("the runs end with different weights", figures)
    return figures


def sha(short):
    case = short.case("resnet20:128")
    command = case.training(short.train(), "--steps", 6 if short.small else 60)
    figures = equal({"captured": weights(short, command), "repeated": weights(short, command),
                     "not_captured": weights(short, [*command, "--without-pass", "capture"])})
    with contextlib.suppress(Skipped, Failed):
        figures["older_program"] = weights(short, [short.program("train-old"), *command[1:]])
    return figures


def workloads(short):
    """Boxes, masks and words, captured and not: the convolutions of some models may not let themselves be captured."""
    figures, failures = {}, []
    for model in ("crnn",) if short.small else ("unet", "detector", "crnn", "pp-liteseg", "mobilenet-v2"):
        command = [short.train(), "--device", short.device, "--precision", "bf16", "--model", model, "--dataset",
                   OF_LOSSES.get(model, "synthetic-cifar"), "--batch", 16, "--steps", 3 if short.small else 20, "--lr", RATES[model],
                   "--eval-interval", "never", "--save-dir", "none"]
        try:
            figures[model] = equal({"captured": weights(short, command), "not_captured": weights(short, [*command, "--without-pass", "capture"])})
        except TimedOut:
            raise
        except Failed as failed:
            failures.append(f"{model}: {failed}")
            figures[model] = failed.figures
    if failures:
        raise Failed("; ".join(failures), figures)
    return figures


def pytorch(short, text, mode, steps=None):
    out, code = short.run(*short.case(text, steps).pytorch_command(mode), may_fail=True)
    if "No module named 'torch'" in out:
        raise Skipped("python3 imports no torch")
    if code != 0:
        raise Failed(last_lines(out))
    result = json.loads([line for line in out.splitlines() if line.startswith("{")][-1])
    return {"images_per_second": compare_gpu.rate(result["windows"]), "windows": result["windows"],
            "peak_bytes": result["peak_bytes"], "torch": result["torch"]}


def pytorch_step(text, mode, steps=None):
    return lambda short: pytorch(short, text, mode, steps)


def resnet18(short):
    return speed(short, "resnet18:1024", short.train())


def resnet20(short):
    return speed(short, "resnet20:128", short.train())


def contest(short):
    """All candidates are timed again, also those that the recorded choices do not know."""
    (STATE / "kernels-contest.txt").unlink(missing_ok=True)
    first = speed(short, "resnet50:256", short.train(), "kernels-contest.txt", 10)
    again = speed(short, "resnet50:256", short.train(), "kernels-contest.txt", 10)
    figures = {"first": first, "images_per_second": again["images_per_second"]}
    if recorded := short.figures("resnet50").get("images_per_second"):
        figures["of_recorded_choices"] = round(again["images_per_second"] / recorded, 3)
    return figures


def of_two_ranks(short, *options):
    case = short.case("resnet20:128")
    return short.two_ranks(*case.training(short.train(), "--steps", 6 if short.small else 30, *options))


def two_ranks_capture(short):
    return equal({"captured": weights(short, of_two_ranks(short), **short.one_gpu()),
                  "not_captured": weights(short, of_two_ranks(short, "--without-pass", "capture"), **short.one_gpu())})


def two_ranks_tree_order(short):
    """Two summands have one sum, whoever adds them."""
    return equal({"auto": weights(short, of_two_ranks(short), **short.one_gpu()),
                  "tree_order": weights(short, of_two_ranks(short, "--algorithm", "tree-order"), **short.one_gpu())})


def two_ranks_shards(short):
    """With shards one rank and two have the same bits, also with a part of the optimizer on each."""
    shards = ["--shards", 4]
    alone = short.case("resnet20:128").training(short.train(), "--steps", 6 if short.small else 30, *shards)
    return equal({"one_rank": weights(short, alone),
                  "two_ranks": weights(short, of_two_ranks(short, *shards), **short.one_gpu()),
                  "zero": weights(short, of_two_ranks(short, *shards, "--zero"), **short.one_gpu())})


def rank_of(pid):
    with contextlib.suppress(OSError):
        for entry in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if entry.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")):
                return int(entry.partition(b"=")[2])
    return None


def wait_until(condition, until):
    while time.time() < until:
        if condition():
            return True
        time.sleep(0.05)
    return False


def signaled(short, number):
    """What becomes of two ranks while they replay their steps, and the second one gets a signal."""
    patience = 5 if short.small else 10
    program, metrics = short.train(), STATE / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    command = short.two_ranks(*short.case("resnet20:128").training(
        program, "--steps", 1_000_000, "--epochs", 1_000_000, "--comm-timeout", patience, "--log-every", 1, "--metrics", metrics))
    job = short.job(command, **short.one_gpu())
    try:
        def trains():
            return metrics.exists() and metrics.read_text().count('"event":"step"') > 6

        def names():
            words = " ".join(short.output(log=False).replace("train:", "|").split())
            return re.search(r"rank 0 on [^|]*(peer rank 1|\(rank 1\))", words) is not None

        if not wait_until(lambda: trains() or job.process.poll() is not None, short.step_end) or not trains():
            raise Failed("it did not begin to train")
        ranks = [pid for pid in job.members() if rank_of(pid) == 1 and os.readlink(f"/proc/{pid}/exe") == str(program.resolve())]
        if len(ranks) != 1:
            raise Failed(f"{len(ranks)} processes are rank 1")
        begin = time.time()
        os.kill(ranks[0], number)
        until = min(short.step_end, begin + 1.2 * patience + 8)
        named = wait_until(lambda: names() or job.process.poll() is not None, until) and names()
        figures = {"named": named, "seconds_until_known": round(time.time() - begin, 2)}
        if number == signal.SIGSTOP and not named:
            raise Failed("rank 0 did not name the stopped rank", figures)
        with contextlib.suppress(ProcessLookupError):
            os.kill(ranks[0], signal.SIGKILL)
        if not job.has_ended(until + 10):
            raise Failed("mpirun did not end", figures)
        figures |= {"exit_code": job.process.returncode, "seconds": round(time.time() - begin, 2), "left": len(job.members())}
        if job.process.returncode == 0 or figures["left"]:
            raise Failed("it ended as if nothing had been, or not wholly", figures)
        return figures
    finally:
        job.end()
        short.output()


def two_ranks_stop(short):
    return signaled(short, signal.SIGSTOP)


def two_ranks_kill(short):
    return signaled(short, signal.SIGKILL)


def sanitizer(short, tool, rows):
    short.needs("compute-sanitizer")
    text, code = short.run("compute-sanitizer", "--tool", tool, "--error-exitcode", 9, short.program("cuda_ops_test"),
                           "--gtest_filter=" + rows, may_fail=True)
    summary = re.findall(r"========= (?:ERROR|RACECHECK) SUMMARY: (.*)", text)
    figures = {"tool": tool, "rows": rows, "summary": summary[-1] if summary else None}
    if code != 0 or not summary:
        raise Failed(f"it ended with {code}: {last_lines(text)}", figures)
    return figures


def memcheck(short):
    return sanitizer(short, "memcheck", NORMS)


def racecheck(short):
    return sanitizer(short, "racecheck", NORMS)


def losses(short):
    """The losses of some steps beside those of the reference on the CPU."""
    figures = {}
    for model in ("lenet",) if short.small else RATES:
        found = {}
        for name, options in (("device", ["--device", short.device]), ("cpu", ["--device", "cpu", "--ops", "reference"])):
            metrics = STATE / "metrics.jsonl"
            metrics.unlink(missing_ok=True)
            data = OF_LOSSES.get(model, "synthetic-cifar")
            short.run(short.train(), "--model", model, "--dataset", data, "--batch", 16, "--steps", 10, "--warmup", 0, "--log-every", 1,
                      "--lr", RATES[model], "--eval-interval", "never", "--save-dir", "none", "--metrics", metrics, *options)
            events = map(json.loads, metrics.read_text().splitlines())
            found[name] = [event["loss"] for event in events if event["event"] == "step"]
        figures[model] = max(abs(a - b) for a, b in zip(*found.values(), strict=True))
    if max(figures.values()) > LARGEST_DIFFERENCE:
        raise Failed(f"a loss differs by more than {LARGEST_DIFFERENCE}", figures)
    return figures


# In the order of their worth, with the most seconds that each may take.
STEPS = {
    "describe": (describe, 15),
    "anchors": (anchors, 30),
    "ops": (ops, 75),
    "ops-memcheck": (ops_memcheck, 60),
    "resnet50-old": (resnet50_old, 60),
    "resnet50": (resnet50, 90),
    "resnet50-old-again": (resnet50_old, 30),
    "resnet50-again": (resnet50, 30),
    "ncu": (ncu, 150),
    "explain": (explain, 40),
    "sha": (sha, 40),
    "workloads": (workloads, 80),
    "eager": (pytorch_step("resnet50:256", None, 10), 45),
    "resnet18": (resnet18, 45),
    "resnet20": (resnet20, 45),
    "nccl": (lambda short: tests(short, "nccl_test"), 30),
    "capture": (lambda short: tests(short, "capture_test"), 30),
    "contest": (contest, 90),
    "compiled": (pytorch_step("resnet50:256", "reduce-overhead", 10), 120),
    "resnet18-compiled": (pytorch_step("resnet18:1024", "reduce-overhead"), 60),
    "resnet20-compiled": (pytorch_step("resnet20:128", "reduce-overhead"), 60),
    "resnet18-eager": (pytorch_step("resnet18:1024", None), 40),
    "resnet20-eager": (pytorch_step("resnet20:128", None), 40),
    "two-ranks-capture": (two_ranks_capture, 60),
    "two-ranks-tree-order": (two_ranks_tree_order, 60),
    "two-ranks-shards": (two_ranks_shards, 90),
    "two-ranks-stop": (two_ranks_stop, 60),
    "two-ranks-kill": (two_ranks_kill, 60),
    "memcheck": (memcheck, 80),
    "racecheck": (racecheck, 80),
    "losses": (losses, 90),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--reserve", type=float, default=90)
    parser.add_argument("--began", type=float, default=time.time(), help="when the seconds began to count, as by date +%%s")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--programs", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("steps", nargs="*", metavar="STEP")
    options = parser.parse_args()
    for name in options.steps:
        if name not in STEPS:
            parser.error(f"there is no step '{name}'; there are {', '.join(STEPS)}")
    return options


def outcome_of(short, name):
    """Runs a step. @return its outcome, its figures, and the reason of whatever is not a success"""
    body, limit = STEPS[name]
    short.step_end = min(time.time() + limit, short.end - 2)  # what is left copies the results
    try:
        return "passed", body(short), None
    except Skipped as skipped:
        return "skipped", {}, str(skipped)
    except TimedOut as late:
        return "timeout", late.figures, str(late)
    except Failed as failed:
        return "failed", failed.figures, str(failed)
    except Exception as error:  # whatever it is, the other steps are worth more than its traceback
        return "failed", {}, f"{type(error).__name__}: {error}"


def keep(short, line):
    """Adds a step's line, and brings all results to where they are wanted."""
    short.results[line["step"]] = line
    with (STATE / "steps.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    if short.options.out is None:
        return
    short.options.out.mkdir(parents=True, exist_ok=True)
    for name in RESULTS:
        if (STATE / name).exists():
            with (STATE / name).open("rb") as file:
                file.seek(max(0, (STATE / name).stat().st_size - MOST_BYTES))
                (short.options.out / name).write_bytes(file.read())


def take(short, name):
    begin = time.time()
    left = short.end - begin
    if left < short.options.reserve:
        outcome, figures, reason = "left", {}, f"only {max(0, left):.0f} s are left, fewer than {short.options.reserve:.0f}"
    else:
        short.log(f"\n==> {name}\n")
        outcome, figures, reason = outcome_of(short, name)
    seconds = round(time.time() - begin, 1)
    line = {"step": name, "outcome": outcome, "seconds": seconds, "device": short.device, "figures": figures}
    if reason is not None:
        line["reason"] = reason
    keep(short, line)
    print(f"{name:20} {outcome:8} {seconds:6.1f} s  {reason or json.dumps(figures)[:200]}", flush=True)
    return outcome


def main():
    options = parse_arguments()
    if options.list:
        for name, (_, limit) in STEPS.items():
            print(f"{name:20} at most {limit} s")
        return 0
    STATE.mkdir(parents=True, exist_ok=True)
    short = Short(options)
    names = options.steps or [name for name in STEPS if short.results.get(name, {}).get("outcome", "left") == "left"]
    outcomes = [take(short, name) for name in names]
    counts = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in sorted(set(outcomes)))
    print(counts or "every step has a result: name those to repeat")
    return 1 if {"failed", "timeout"} & set(outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
