#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy on the library and the programs, headers through the files that include them.

  tidy.py [PATH...]          every check but the static analyzer's, in minutes; of these files and folders, or of all
  tidy.py --full [PATH...]   each file by itself, with the analyzer: a quarter of an hour on two cores, so weekly

Nearly all of the time goes into system headers, which clang-tidy parses and matches again for each file. So files that
are compiled with the same flags, those of one room or of some small ones, are checked as one: a file that includes them
all. Those that do not go together, since two of them use one name for two things, are halved until they do. The analyzer looks at no
function outside the main file, hence the other mode. Tests are left out, they would take twice as long again, and so are
kernels for GPUs: clang does not take nvcc's options. build/dev (`cmake --preset dev`) holds the commands.
"""
import json
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/dev"
FOLDERS = ("src", "apps", "bindings", "kernels", "mpi-scripts")
NOT_TOGETHER = "-clang-analyzer-*,-bugprone-suspicious-include"
# Flags that change no finding and would keep files apart. gcc has looked for names that hide others, file by file.
IGNORED = re.compile("-Werror|-Wshadow|-fPIC|-fno-lto|-D[a-z_]+_EXPORTS")
# What only files say that do not go together.
CLASHES = ("[clang-diagnostic-error", "[clang-diagnostic-macro-redefined")


def groups(paths):
    """The files below these paths, by the target that they belong to and the flags that they are compiled with."""
    files = defaultdict(list)
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        path = Path(entry["directory"], entry["file"])
        if path.suffix != ".cpp" or not path.is_relative_to(ROOT) or path.is_relative_to(BUILD):
            continue  # only the part below ROOT counts: a clone may lie in any folder, also in one named "tests"
        if any(path.is_relative_to(wanted) for wanted in paths):
            command = shlex.split(entry["command"])
            flags = [flag for flag in command[1:] if flag.startswith(("-D", "-I", "-W", "-f", "-m", "-std")) and not IGNORED.fullmatch(flag)]
            flags += [f"-isystem{folder}" for before, folder in zip(command, command[1:]) if before == "-isystem"]
            target = Path(command[command.index("-o") + 1]).as_posix().split(".dir/")[0]
            files[target, tuple(flags)].append(path)
    return files


def packs(files_by_target, most=16):
    """Files to be checked together, with their flags: those of a target, and of small targets with the same flags. What several
    targets compile is checked once."""
    packed = []
    seen = set()
    for (_, flags), files in sorted(files_by_target.items(), key=lambda item: -len(item[1])):
        new = set(files) - seen
        seen |= new
        fitting = (pack for flags_of_pack, pack in packed if flags_of_pack == flags and len(pack | new) <= most)
        if (pack := next(fitting, None)) is not None:
            pack |= new
        elif new:
            packed.append((flags, new))
    return packed


def run(source, flags, checks):
    header_filter = f"^{re.escape(str(ROOT))}/(include|src|apps|kernels|mpi-scripts)/"
    command = ["clang-tidy", "--quiet", f"--config-file={ROOT}/.clang-tidy", f"--header-filter={header_filter}",
               *([f"--checks={checks}"] if checks else []), str(source), "--", *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def findings(result):
    noise = re.compile(r"\d+ warnings?.* generated\.$|Suppressed \d+ warnings|Use -header-filter=")
    return "\n".join(line for line in (result.stdout + result.stderr).splitlines() if not noise.match(line))


def check_together(files, flags, work, name):
    source = work / f"{name}.cpp"
    # A program's main is renamed: each has one.
    source.write_text("".join(f'#define main main_{number}\n#include "{file}"\n#undef main\n' if file.name == "main.cpp" else f'#include "{file}"\n'
                              for number, file in enumerate(files)))
    result = run(source, flags, NOT_TOGETHER)
    if len(files) > 1 and any(clash in result.stdout for clash in CLASHES):
        half = len(files) // 2
        print(f"{files[0].parent.relative_to(ROOT)}: {len(files)} files do not go together and are checked in two halves", flush=True)
        return [*check_together(files[:half], flags, work, f"{name}a"), *check_together(files[half:], flags, work, f"{name}b")]
    return [result]


def tasks(packed, full):
    work = BUILD / "tidy"
    work.mkdir(exist_ok=True)
    for number, (flags, files) in enumerate(packed):
        if full:
            for file in sorted(files):
                yield lambda file=file, flags=flags: [run(file, flags, "")]
        else:
            yield lambda files=sorted(files), flags=flags, number=number: check_together(files, flags, work, f"{number}")


def main():
    if "--help" in sys.argv:
        print(__doc__)
        return
    arguments = [argument for argument in sys.argv[1:] if argument != "--full"]
    packed = packs(groups([Path(argument).resolve() for argument in arguments] or [ROOT / folder for folder in FOLDERS]))
    count = sum(len(files) for _, files in packed)
    if count == 0:
        sys.exit(f"error: {BUILD}/compile_commands.json names no file in {', '.join(arguments or FOLDERS)} below {ROOT}")
    jobs = int(os.environ.get("BUILD_JOBS") or os.cpu_count() or 1)
    with ThreadPoolExecutor(jobs) as pool:
        results = [result for task in pool.map(lambda task: task(), tasks(packed, "--full" in sys.argv)) for result in task]
    for result in results:
        if result.returncode != 0:
            print(findings(result), file=sys.stderr)
    print(f"clang-tidy: {count} files in {len(results)} runs")
    sys.exit(any(result.returncode for result in results))


main()
