# SPDX-License-Identifier: Apache-2.0
"""The launcher's options: what was typed, which hosts have how many ranks, and the program."""
import os
import pathlib
import re
import select
import stat
import time

NAME = "lockstep-launch"
HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "foreign_options.txt"  # as it is installed; in the repository it is train's
TABLE = TABLE if TABLE.exists() else HERE.parents[1] / "apps/train/options/foreign_options.txt"
# Scripts of other frameworks that mean lockstep's train, and others, which it must not take for these.
TRAINS = re.compile(r"(.*[_.-])?train([_.-].*)?\.py")
EVALUATES = re.compile(r"(e?val|validate|evaluate|validation|evaluation)([_.-].*)?\.py")
LAUNCHES = re.compile(r"(torch|paddle)\..*|.*\.launch")  # Python's modules that start others
FLAG_OF_PYTHON = re.compile(r"-[bBdEiIOPqRsSuvx]+")
RANKS = r"[1-9]\d{0,6}"
VARIABLE = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
SECONDS = 10  # for a file of hosts, which may be a pipe
LONGEST = 1 << 20  # bytes of it


class UsageError(Exception):
    pass


def spellings():
    """Options that take a value and options that do not, each by the name that stands for it; None: it has no effect."""
    values, flags = {"min-ranks": "min_ranks"}, {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        name, *words = line.split() if line.startswith("  @") else [""]
        for word in words:
            (values if name.endswith("=") else flags)[word.lstrip("-")] = name.strip("@=") or None
    return values, flags


VALUES, FLAGS = spellings()


def without_foreign_launcher(words):
    """Drops "fleetrun", "torchrun", "python -m MODULE" of a launcher, and "python" before a script that trains or evaluates."""
    name = os.path.basename(words[0]) if words else ""
    if name in ("fleetrun", "torchrun", "horovodrun"):
        return without_foreign_launcher(words[1:])
    if not re.fullmatch(r"python[\d.]*", name):
        return list(words)
    number = 1
    while number < len(words) and (FLAG_OF_PYTHON.fullmatch(words[number]) or words[number] in ("-W", "-X")):
        number += 2 if words[number] in ("-W", "-X") else 1
    script = os.path.basename(words[number]) if number < len(words) else ""
    if TRAINS.fullmatch(script) or EVALUATES.fullmatch(script):
        return words[number:]
    if script == "-m" and number + 1 < len(words) and LAUNCHES.fullmatch(words[number + 1]):
        return without_foreign_launcher(words[number + 2:])
    return list(words)


def positive(name, text):
    if not re.fullmatch(RANKS, text, re.ASCII):
        raise UsageError(f"{name} {text}: give a number from 1 on")
    return int(text)


def parse(words):
    """The launcher's options, and the words that begin with the program."""
    options = {}
    words = without_foreign_launcher(words)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            words = without_foreign_launcher(words)
            break
        name, has_value, value = word.partition("=")
        key = name.lstrip("-").replace("_", "-")
        if key in FLAGS:
            options[FLAGS[key]] = True
            words = without_foreign_launcher(words)
            continue
        if key not in VALUES:
            raise UsageError(f"there is no option '{name}'; {NAME} --help lists them. The program's own options follow its name")
        if not has_value:
            if not words:
                raise UsageError(f"{name} needs a value")
            value = words.pop(0)
        target = VALUES[key]
        if target in options and target is not None and options[target] != (name, value):
            raise UsageError(f"{name} {value} and {' '.join(options[target])} say the same thing twice: leave one out")
        options[target] = (name, value)
        words = without_foreign_launcher(words)
    if not words:
        raise UsageError("which program? For instance: train --model lenet")
    if VARIABLE.fullmatch(words[0]):
        raise UsageError(f"{words[0]}: write variables of the environment before {NAME}, as in: {words[0].partition('=')[0]}=… {NAME} …")
    return options, words


def port_of(options):
    """The first TCP port of MPI; None where nobody has said it. @throws UsageError"""
    option = options.get("start_port", ("FLAGS_START_PORT", os.environ.get("FLAGS_START_PORT")))
    port = positive(*option) if option[1] else None
    if port and port > 65535:
        raise UsageError(f"{' '.join(option)}: give a TCP port, at most 65535")
    return port


def text_of(option):
    """The text of an option's file, which may be a pipe, but must end. @throws UsageError"""
    said, text, end = " ".join(option), b"", time.monotonic() + SECONDS
    try:
        with open(os.open(option[1], os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as file:
            is_pipe = stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)
            while True:
                select.select([file], [], [], max(0, end - time.monotonic()))
                data = file.read(65536)
                if data == b"" and (text or not is_pipe):
                    return text.decode("utf-8-sig", errors="replace")
                text += data or b""
                if len(text) > LONGEST:
                    raise UsageError(f"{said}: the file is longer than {LONGEST} bytes")
                if time.monotonic() > end:
                    raise UsageError(f"{said}: the file has not ended within {SECONDS} s; is it a pipe into which nobody writes?")
                if not data:
                    time.sleep(0.01)  # nobody has opened the other end of the pipe yet
    except (OSError, ValueError) as error:
        raise UsageError(f"{said}: {getattr(error, 'strerror', None) or error}") from error


def hosts_of(options):
    """Pairs of each host and its number of ranks, which is None where nobody has said it."""
    entries = []
    if "hostfile" in options:
        entries = [line.split("#")[0] for line in text_of(options["hostfile"]).splitlines()]
    if "hosts" in options:
        if entries:
            raise UsageError(f"{options['hosts'][0]} and {options['hostfile'][0]}: give one of the two")
        entries = options["hosts"][1].split(",")
    listed = options.get("hosts", options.get("hostfile"))
    said = " ".join(listed) if "hostfile" in options else listed[0] if listed else ""
    hosts = []
    for entry in filter(None, (entry.strip() for entry in entries)):
        host, _, slots = re.sub(r"\s+(slots|max_slots)\s*=\s*", ":", entry).partition(":")
        slots = slots.split(":")[0]
        if not re.fullmatch(r"[\w.-]+", host):
            raise UsageError(f"{said}: {entry[:80]!r} is no host: write NAME or NAME:RANKS")
        if slots and not re.fullmatch(RANKS, slots, re.ASCII):
            raise UsageError(f"{said}: {entry[:80]!r}: give host {host} a number of ranks from 1 on")
        if host in (known for known, _ in hosts):
            raise UsageError(f"host {host} is listed twice: write {host}:N for N ranks")
        hosts.append((host, int(slots) if slots else None))
    if listed and not hosts:
        raise UsageError(f"{' '.join(listed)}: there are no hosts in it; leave it out to start all ranks on this host")
    if "nodes" in options:
        nodes = positive(*options["nodes"])
        if hosts and nodes != len(hosts):
            raise UsageError(f"{' '.join(options['nodes'])}, but {len(hosts)} hosts are listed")
        if not hosts and nodes > 1:
            raise UsageError(f"{' '.join(options['nodes'])} needs the hosts' names: add --hosts with {nodes} of them")
    return hosts


def spread(options, hosts):
    """Each host's number of ranks."""
    gpus = options["gpus"][1].split(",") if "gpus" in options else []
    per_host = positive(*options["per_host"]) if "per_host" in options else len(gpus) or None
    if gpus and per_host != len(gpus):
        raise UsageError(f"{' '.join(options['per_host'])}, but {' '.join(options['gpus'])} has {len(gpus)}: each rank gets one")
    number = max(1, len(hosts))
    counts = [slots or per_host for _, slots in hosts] or [per_host]
    if "ranks" not in options:
        return [count or 1 for count in counts]
    ranks = positive(*options["ranks"])
    if None not in counts:
        if per_host and ranks != sum(counts):
            raise UsageError(f"{' '.join(options['ranks'])}, but {number} hosts have {sum(counts)} ranks together")
        return counts if sum(counts) == ranks else [max(0, min(count, ranks - sum(counts[:i]))) for i, count in enumerate(counts)]
    open_hosts = counts.count(None)
    left = ranks - sum(count or 0 for count in counts)
    if left < open_hosts:
        raise UsageError(f"{' '.join(options['ranks'])}: {number} hosts need a rank each at least")
    filled = iter([left // open_hosts + (i < left % open_hosts) for i in range(open_hosts)])
    return [count or next(filled) for count in counts]
