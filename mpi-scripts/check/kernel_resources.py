#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what nvcc makes of the kernels for GPUs with a table, so that a kernel cannot get worse unseen: registers, bytes that are
spilled, and how many loads of 16 bytes a thread's loops have in flight. It needs nvcc, and no GPU.

  kernel_resources.py [--write] [--nvcc FILE] [--cuobjdump FILE] [SOURCE.cu ...]

The table is docs/measurements/gpu-kernel-resources.csv, for the nvcc that its head names; another nvcc makes other code, and nothing
is compared then. A kernel may have 4 registers and 8 spilled bytes more than the table says, and not one load less in flight. Without
cuobjdump, a tool of the CUDA toolkit (on PyPI: nvidia-cuda-cuobjdump), loads are not compared. --write writes the table anew.
"""
import argparse
import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs/measurements/gpu-kernel-resources.csv"
SOURCES = [f"src/ops/cuda/kernels/{name}.cu" for name in ("batch_norm", "two_batch_norms", "pooled_batch_norm", "elementwise", "arrange", "resize",
                                                          "multiply", "layouts", "pools", "update")]
ARCHITECTURE = "sm_90"
MORE_REGISTERS, MORE_SPILLED = 4, 8


def found(name, given):
    toolkit = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin"
    return given or shutil.which(name) or shutil.which(name, path=toolkit)


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout + done.stderr


def demangled(names):
    """Short names, without what all of them have."""
    texts = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout.splitlines()
    short = {}
    for name, text in zip(names, texts, strict=True):
        for prefix in ("lockstep::ops::cuda::", "lockstep::kernels::cuda::", "lockstep::", "(anonymous namespace)::", "void "):
            text = text.replace(prefix, "")
        depth, end = 0, len(text)
        for i, letter in enumerate(text):  # up to the arguments of the function
            depth += (letter == "<") - (letter == ">" and text[i - 1] != "-")
            if letter == "(" and depth == 0:
                end = i
                break
        short[name] = text[:end]
    return short


def registers_of(token):
    return {int(number) for number in re.findall(r"\bR(\d+)\b", token)}


def instructions(code):
    """The instructions of each kernel: address, operation and operands."""
    kernels, name = {}, None
    for line in code.splitlines():
        if function := re.search(r"Function : (\S+)", line):
            name = function[1]
            kernels[name] = []
        instruction = re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\d+\s+)?(\S+)\s*([^;]*);", line)
        if instruction and name is not None:
            kernels[name].append((int(instruction[1], 16), instruction[2], instruction[3].split(",")))
    return kernels


def loads_in_flight(kernel):
    """The most loads of 16 bytes in a loop of which no result has been used yet, in the order of the instructions."""
    targets = [(re.search(r"0x([0-9a-f]+)", operands[-1]), address) for address, operation, operands in kernel if operation.startswith("BRA")]
    loops = [(int(target[1], 16), address) for target, address in targets if target and int(target[1], 16) < address]
    most, pending = 0, []
    for address, operation, operands in kernel:
        is_store = operation.startswith("ST")
        reads = set().union(*map(registers_of, operands if is_store else operands[1:]))
        writes = set() if is_store else registers_of(operands[0])
        pending = [load for load in pending if not load & (reads | writes)]
        is_load = operation.startswith("LDG") and ".128" in operation
        if is_load and any(begin <= address <= end for begin, end in loops):
            first = min(writes, default=0)
            pending.append(set(range(first, first + 4)))
            most = max(most, len(pending))
    return most


def measured(nvcc, cuobjdump, source, folder):
    """Rows of the table: kernel, registers, spilled bytes and loads in flight ('' if unknown)."""
    cubin = pathlib.Path(folder) / "kernels.cubin"
    log = output(nvcc, "-std=c++20", "--extended-lambda", "--expt-relaxed-constexpr", "--fmad=false", f"-arch={ARCHITECTURE}", "-cubin",
                 "-Xptxas", "-v", f"-I{ROOT}/include", f"-I{ROOT}", f"-I{ROOT}/src", "-o", cubin, ROOT / source)
    code = instructions(output(cuobjdump, "-sass", cubin)) if cuobjdump else {}
    loads = {name: loads_in_flight(kernel) for name, kernel in code.items()}
    kernels = {}
    for part in log.split("Compiling entry function '")[1:]:
        spilled = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", part)
        used = re.search(r"Used (\d+) registers", part)
        name = part[:part.index("'")]
        kernels[name] = (int(used[1]), int(spilled[1]) + int(spilled[2]), loads.get(name, ""))
    short = demangled(list(kernels))
    rows = {}
    for name, values in kernels.items():
        rows.setdefault((source, short[name]), []).append(values)
    # Kernels of lambdas in one function have one name; each resource is then that of the worst.
    return {key: (max(v[0] for v in all_), max(v[1] for v in all_), min((v[2] for v in all_), key=lambda n: n or 0))
            for key, all_ in rows.items()}


def read_table():
    if not TABLE.exists():
        return None, {}
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    version = re.search(r"nvcc (\S+)", lines[0])[1].rstrip(",")
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return version, {(row["source"], row["kernel"]): (int(row["registers"]), int(row["spilled_bytes"]), int(row["loads_in_flight"]))
                     for row in rows}


def write_table(version, rows):
    with open(TABLE, "w", newline="", encoding="utf-8") as file:
        file.write(f"# What nvcc {version} makes of kernels for {ARCHITECTURE}, by mpi-scripts/check/kernel_resources.py --write.\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["source", "kernel", "registers", "spilled_bytes", "loads_in_flight"])
        for (source, kernel), values in sorted(rows.items()):
            writer.writerow([source, kernel, *values])


def worse(rows, table):
    for (source, kernel), (registers, spilled, loads) in sorted(rows.items()):
        known = table.get((source, kernel))
        if known is None:
            yield f"{source}: {kernel} is not in the table"
            continue
        if registers > known[0] + MORE_REGISTERS:
            yield f"{source}: {kernel} has {registers} registers, {known[0]} before"
        if spilled > known[1] + MORE_SPILLED:
            yield f"{source}: {kernel} spills {spilled} bytes, {known[1]} before"
        if loads != "" and loads < known[2]:
            yield f"{source}: {kernel} has {loads} loads of 16 bytes in flight, {known[2]} before"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", default=SOURCES)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--nvcc")
    parser.add_argument("--cuobjdump")
    arguments = parser.parse_args()
    nvcc, cuobjdump = found("nvcc", arguments.nvcc), found("cuobjdump", arguments.cuobjdump)
    if nvcc is None:
        sys.exit("error: there is no nvcc; install the CUDA toolkit, or name it by --nvcc")
    version = re.search(r"V(\d+\.\d+\.\d+)", output(nvcc, "--version"))[1]
    of_nvcc, table = read_table()
    if not arguments.write and version != of_nvcc:
        print(f"not compared: this is nvcc {version}, and the table is of {of_nvcc}")
        return
    if cuobjdump is None:
        if arguments.write:
            sys.exit("error: there is no cuobjdump; install it (PyPI: nvidia-cuda-cuobjdump), or name it by --cuobjdump")
        print("loads in flight are not compared: there is no cuobjdump (PyPI: nvidia-cuda-cuobjdump)")
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for source in arguments.sources:
            rows.update(measured(nvcc, cuobjdump, source, folder))
    if arguments.write:
        write_table(version, rows)
        return
    faults = list(worse(rows, table))
    print("\n".join(faults) or f"{len(rows)} kernels are as the table says")
    if faults:
        sys.exit("error: kernels got worse; mend them, or write the table anew with a reason (--write)")


if __name__ == "__main__":
    main()
