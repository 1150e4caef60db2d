# SPDX-License-Identifier: Apache-2.0
"""The launcher's options: what was typed, which hosts have how many ranks, and the program with its options."""
import os
import pathlib
import re
import shutil
import sys

NAME = "lockstep-launch"
# What takes a value, by the name that stands for it.
VALUES = {"hosts": "hosts", "ips": "hosts", "H": "hosts", "host": "hosts", "hostfile": "hostfile", "machinefile": "hostfile",
          "nnodes": "nodes", "np": "ranks", "n": "ranks", "nproc-per-node": "per_host", "ppn": "per_host", "gpus": "gpus",
          "devices": "gpus", "selected-gpu": "gpus", "selected-gpus": "gpus", "node-rank": "node_rank", "rank": "node_rank",
          "ifname": "ifname", "start-port": "start_port", "log-dir": "log_dir", "master-addr": None, "master-port": None,
          "master": None, "job-id": None, "rdzv-backend": None, "rdzv-endpoint": None, "rdzv-id": None,
          "max-restart": "max_restart", "max-restarts": "max_restart", "min-ranks": "min_ranks"}
FLAGS = {"dry-run": "dry_run", "preflight": "preflight", "no-preflight": "no_preflight", "use-env": None, "standalone": None}
# Options of other trainers, by train's option; with None they are not needed.
RENAMED = {"-c": "--config", "--cfg": "--config", "--data": "--data-dir", "--save_dir": "--save-dir",
           "--save_interval": "--save-steps", "--num_workers": "--workers"}
NEEDLESS = {"--eval": "train evaluates after each epoch", "--do_eval": "train evaluates after each epoch",
            "--use_vdl": "train writes --metrics FILE instead of VisualDL's logs"}


class UsageError(Exception):
    pass


def without_foreign_launcher(words):
    """Drops "fleetrun", "torchrun" and "python -m MODULE"."""
    if words and os.path.basename(words[0]) in ("fleetrun", "torchrun"):
        return words[1:]
    if len(words) > 2 and re.fullmatch(r"python[\d.]*", os.path.basename(words[0])) and words[1] == "-m":
        return words[3:]
    return list(words)


def positive(name, text):
    if not re.fullmatch(r"[1-9]\d{0,6}", text):
        raise UsageError(f"{name} {text}: give a number from 1 on")
    return int(text)


def parse(words):
    """The launcher's options, and the words that begin with the program."""
    options = {}
    words = without_foreign_launcher(words)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
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
    if not words:
        raise UsageError("which program? For instance: train --model lenet")
    return options, words


def hosts_of(options):
    """Pairs of each host and its number of ranks, which is None where nobody has said it."""
    entries = []
    if "hostfile" in options:
        file = pathlib.Path(options["hostfile"][1])
        try:
            lines = file.read_text().splitlines()
        except OSError as error:
            raise UsageError(f"{' '.join(options['hostfile'])}: {error.strerror}") from error
        entries = [re.sub(r"\s+(slots|max_slots)\s*=\s*", ":", line.split("#")[0].strip()) for line in lines]
    if "hosts" in options:
        if entries:
            raise UsageError(f"{options['hosts'][0]} and {options['hostfile'][0]}: give one of the two")
        entries = options["hosts"][1].split(",")
    hosts = []
    for entry in filter(None, (entry.strip() for entry in entries)):
        host, _, slots = entry.partition(":")
        if not re.fullmatch(r"[\w.-]+", host):
            raise UsageError(f"'{entry}' is no host: write NAME or NAME:RANKS")
        if host in (known for known, _ in hosts):
            raise UsageError(f"host {host} is listed twice: write {host}:N for N ranks")
        hosts.append((host, positive(host, slots.split(":")[0]) if slots else None))
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


def program_of(word):
    """lockstep's train where a trainer of another framework is named, and the path of any other program."""
    if not word.endswith(".py") and (os.sep in word or word != "train"):
        return word
    root = pathlib.Path(__file__).resolve().parents[2]  # of the repository; installed, it is share
    builds = sorted(root.glob("build/*/bin/train"), key=lambda path: -path.stat().st_mtime)
    in_path = [pathlib.Path(found) for found in [shutil.which("train")] if found]
    for found in [pathlib.Path(sys.argv[0]).resolve().parent / "train", *in_path, *builds]:
        if found.is_file() and os.access(found, os.X_OK):
            return str(found)
    raise UsageError(f"{word} means lockstep's train, which is neither beside this script nor in PATH: give its path")


def translate(words):
    """The program's options under the names that train gives them, and what was translated."""
    translated, notes = [], []
    words = list(words)
    while words:
        word = words.pop(0)
        name, has_value, value = word.partition("=")
        if name in NEEDLESS:
            notes.append(f"{name} is not needed: {NEEDLESS[name]}")
        elif name == "-o" and words and "=" in words[0]:
            key, _, value = words.pop(0).partition("=")
            option = "--" + key.rsplit(".", 1)[-1].replace("_", "-")
            notes.append(f"-o {key}={value} is {option} {value}")
            translated += [option, value]
        elif name in RENAMED:
            notes.append(f"{name} is {RENAMED[name]}")
            translated += [RENAMED[name]] + ([value] if has_value else [])
        else:
            translated.append(word)
    return translated, notes


def value_of(words, option, config=True):
    """The value of one of train's options on a command line, which takes precedence, or in its configuration file."""
    names = [option, option.replace("-", "_").replace("__", "--", 1)]
    for number, word in enumerate(words):
        name, has_value, value = word.partition("=")
        if name in names:
            following = words[number + 1] if number + 1 < len(words) and not words[number + 1].startswith("--") else ""
            return value if has_value else following
    file = value_of(words, "--config", False) or value_of(words, "-c", False) if config else None
    if not file:
        return None
    try:
        lines = pathlib.Path(file).read_text().splitlines()
    except (OSError, UnicodeDecodeError):  # train says more
        return None
    for line in lines:
        found = re.fullmatch(r"\s*([\w-]+)\s*[=:]\s*(.*?)\s*", line.split("#")[0])
        if found and found.group(1).replace("_", "-") == option.lstrip("-"):
            return found.group(2)
    return None
