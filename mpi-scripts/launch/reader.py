# SPDX-License-Identifier: Apache-2.0
"""The options of a program with train's options, as that program reads them: other programs' names, -o, configuration files."""
import dataclasses
import functools
import mmap
import os
import pathlib
import shutil
import subprocess
import sys

from launch.options import EVALUATES, TRAINS, UsageError

MARK = b"lockstep-launch may ask this program for its options"  # in its file, and the first field of its answer
SECONDS = 20  # even a busy machine answers sooner


class Refused(UsageError):
    """The program's own words about its command line, which name the program."""


@dataclasses.dataclass
class Options:
    words: list  # of the command line, under the program's own names, each value behind its option
    values: dict  # by name, those of the configuration file among them
    notes: list  # what a user should know about the command line


def trains():
    """Executable files named train, the nearest first."""
    root = pathlib.Path(__file__).resolve().parents[2]  # of the repository; installed, it is share
    builds = sorted(root.glob("build/*/bin/train"), key=lambda path: -path.stat().st_mtime)
    in_path = [pathlib.Path(folder, "train") for folder in os.get_exec_path()]
    for found in [pathlib.Path(sys.argv[0]).resolve().parent / "train", *in_path, *builds]:
        if found.is_file() and os.access(found, os.X_OK):
            yield str(found)


def program_of(word):
    """lockstep's train where a trainer of another framework is named, and the path of any other program. @throws UsageError"""
    name = os.path.basename(word)
    if word != "train" and not TRAINS.fullmatch(name):
        if name.endswith(".py") and not (os.path.isfile(word) and os.access(word, os.X_OK)):
            remedy = "evaluate by train --eval-only, with --resume best or --weights FILE" if EVALUATES.fullmatch(name) else "write python before it"
            raise UsageError(f"{word} is a script in Python, of which only train.py means lockstep's train: {remedy}")
        return word
    for found in trains():
        return found
    raise UsageError(f"{word} means lockstep's train, which is neither beside this script nor in PATH: give its path")


@functools.lru_cache(maxsize=None)
def prints_its_options(path):
    """Whether a file is such a program. A script is none, whatever it starts, and neither is another program of that name."""
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data[:4] == b"\x7fELF" and data.find(MARK) >= 0
    except (OSError, ValueError):
        return False


@functools.lru_cache(maxsize=None)
def read(program, words):
    """What a program makes of its options. If it is a script named train, lockstep's train reads them, if it can.

    @param words  a tuple
    @return None if nobody can tell. @throws Refused if the program does not accept them"""
    own = shutil.which(program) or program
    if not prints_its_options(own):
        own = None
    others = trains() if os.path.basename(program) == "train" else ()
    asked = own or next(filter(prints_its_options, others), None)
    if not asked or any(word == "-h" or word.startswith("--help") for word in words):
        return None
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI", "SLURM_"))}
    try:
        done = subprocess.run([asked, "--help=launcher", *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS,
                              env=environment, check=False)
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{asked} has not read its options within {SECONDS} s: does the file of --config answer?") from error
    except OSError:  # it may be for other hosts
        return None
    if own and done.returncode == 2 and done.stderr:
        raise Refused(done.stderr.decode(errors="replace").strip("\n"))
    if not done.stdout.startswith(MARK + b"\0"):
        return None
    fields = [os.fsdecode(field).partition(" ") for field in done.stdout.split(b"\0")]
    of_kind = lambda kind: [what for name, _, what in fields if name == kind]
    return Options(of_kind("word"), dict(value.split("=", 1) for value in of_kind("value")), of_kind("note"))


def value_of(command, option):
    """The value of an option of a command, whose first word is the program, or in its configuration file; None without one."""
    found = read(command[0], tuple(command[1:]))
    if found:
        return found.values.get(option.lstrip("-"))
    for number, word in enumerate(command):  # a program that cannot be asked may have the same options
        name, has_value, value = word.partition("=")
        if name.replace("_", "-") == option:
            following = command[number + 1] if number + 1 < len(command) and not command[number + 1].startswith("--") else ""
            return value if has_value else following
    return None
