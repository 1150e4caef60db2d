#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts a program on one or several hosts by mpirun, from the options of fleetrun, paddle.distributed.launch, torchrun and mpirun.

  launch.sh -H host1,host2 -np 16 train --model resnet18 …
  launch.sh --ips=10.0.0.1,10.0.0.2 --gpus 0,1,2,3 train.py -c FILE --save_dir output
  launch.sh python -m torch.distributed.run --nproc_per_node 2 train.py --batch 64 --device 0,1 --sync-bn
  launch.sh mpirun --any-option … train …       that command as it is

Which hosts and how many ranks; each may also be written with - in place of _ and with = before its value:
  --hosts, --ips, -H, --host LIST     hosts, separated by commas, each with :N if it is to have N ranks; the first has rank 0
  --hostfile, --machinefile FILE      the same, a host on each line, with "slots=N" or ":N"
  --nnodes N                          how many hosts; they must be listed if there are several
  -np, -n N                           how many ranks in all
  --nproc_per_node N, --ppn N         how many ranks on each host
  --gpus, --devices, --selected_gpu LIST   the GPUs of each host, a rank for each
  --node_rank N                       0 starts all ranks; another number says so, and starts nothing
How:
  --ifname NAME                       network interface of MPI and NCCL
  --start_port N                      first TCP port of MPI (also the variable FLAGS_START_PORT)
  --log_dir DIR                       the output of rank N goes to DIR/workerlog.N; rank 0's is shown, too
  --dry-run                           print the command instead of starting it
  --master_addr, --master_port, --use_env, --rdzv_*   accepted, and not needed: MPI finds the ranks

The program comes next: train, its path, or any *.py, which means train. Options of PaddlePaddle's and YOLOv5's trainers that
train has under other names are translated, and each translation is reported: -c, -o KEY=VALUE, --cfg, --data, --save_dir,
--save_interval (in steps), --num_workers, --eval, --do_eval, --use_vdl. Variables of MPI, NCCL, OpenMP, CUDA and lockstep are
forwarded to all ranks.

Standard error passes through, line by line. A line that the program has written ("train: rank 1 on …") is held back until the
job has ended, or for HOLD seconds, so that it stands below the boxes that mpirun prints. SIGTERM, SIGUSR1 and SIGHUP are passed
on, and the exit code is the command's. A command line that cannot be understood ends with 2, before anything is started.
"""
import os
import pathlib
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time

HOLD = 5  # seconds: a line that is no last one, such as a warning, should not be late
NAME = "lockstep-launch"
FORWARDED = re.compile(r"(NCCL|LOCKSTEP|OMP|GOMP|UCX|EMULATED_GPU)_\w+|CUDA_(VISIBLE_DEVICES|DEVICE_ORDER)|LD_LIBRARY_PATH|PATH")
# What takes a value, by the name that stands for it.
VALUES = {"hosts": "hosts", "ips": "hosts", "H": "hosts", "host": "hosts", "hostfile": "hostfile", "machinefile": "hostfile",
          "nnodes": "nodes", "np": "ranks", "n": "ranks", "nproc-per-node": "per_host", "ppn": "per_host", "gpus": "gpus",
          "devices": "gpus", "selected-gpu": "gpus", "selected-gpus": "gpus", "node-rank": "node_rank", "rank": "node_rank",
          "ifname": "ifname", "start-port": "start_port", "log-dir": "log_dir", "master-addr": None, "master-port": None,
          "master": None, "job-id": None, "rdzv-backend": None, "rdzv-endpoint": None, "rdzv-id": None}
FLAGS = {"dry-run": "dry_run", "use-env": None, "standalone": None}
# Options of other trainers, by train's option; with None they are not needed.
RENAMED = {"-c": "--config", "--cfg": "--config", "--data": "--data-dir", "--save_dir": "--save-dir",
           "--save_interval": "--save-steps", "--num_workers": "--workers"}
NEEDLESS = {"--eval": "train evaluates after each epoch", "--do_eval": "train evaluates after each epoch",
            "--use_vdl": "train writes --metrics FILE instead of VisualDL's logs"}
# What each rank of a job with --log_dir runs: its own program, with its output in its own file.
WORKER = ('n=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}; log=$1/workerlog.$n; shift; '
          'mkdir -p "${log%/*}" || exit; if [ "$n" = 0 ]; then exec > >(tee "$log") 2> >(tee -a "$log" >&2); '
          'else exec >"$log" 2>&1; fi; exec "$@"')


class UsageError(Exception):
    pass


def show(lines):
    """Writes lines in one go, so that others' lines do not mix with them."""
    data = b"".join(lines)
    while data:
        data = data[os.write(2, data):]


def forward(job, names):
    """Passes standard error on until nobody can write to it any more."""
    held = []
    begin = 0.0
    rest = b""
    while True:
        ready = select.select([job.stderr], [], [], 0.2)[0]
        data = os.read(job.stderr.fileno(), 65536) if ready else None
        if data == b"" or (not ready and job.poll() is not None):
            show(([rest + b"\n" if held else rest] if rest else []) + held)
            return
        if data:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if line.split(b": ")[0] in names:
                    begin = begin if held else time.monotonic()
                    held.append(line + b"\n")
                else:
                    show([line + b"\n"])
        if held and time.monotonic() - begin > HOLD:
            show(held)
            held = []


def run(command):
    try:
        job = subprocess.Popen(command, stderr=subprocess.PIPE)
    except OSError as error:
        print(f"{NAME}: cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        signal.signal(number, lambda received, _: job.send_signal(received))
    signal.signal(signal.SIGINT, lambda *_: None)  # a terminal sends it to the launcher as well
    forward(job, {os.path.basename(word).encode() for word in command[1:]})
    code = job.wait()
    return code if code >= 0 else 128 - code


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
    here = pathlib.Path(__file__).resolve().parent
    builds = sorted(here.parent.glob("build/*/bin/train"), key=lambda path: -path.stat().st_mtime)
    for found in [here / "train", *([pathlib.Path(shutil.which("train"))] if shutil.which("train") else []), *builds]:
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


def is_open_mpi(launcher):
    try:
        text = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise UsageError(f"{launcher} cannot be started ({error.strerror}): install Open MPI or MPICH, or name it in MPIEXEC") from error
    return re.search(r"Open ?MPI|OpenRTE|PRRTE", text.stdout + text.stderr) is not None


def command_of(options, hosts, program):
    launcher = os.environ.get("MPIEXEC", "mpirun")
    counts = spread(options, hosts)
    ranks = str(sum(counts))
    placed = [(host, count) for (host, _), count in zip(hosts, counts) if count > 0]
    ifname = options["ifname"][1] if "ifname" in options else None
    port = options["start_port"][1] if "start_port" in options else os.environ.get("FLAGS_START_PORT")
    worker = ["bash", "-c", WORKER, NAME, os.path.abspath(options["log_dir"][1])] if "log_dir" in options else []
    exported = {name: value for name, value in os.environ.items() if FORWARDED.fullmatch(name)}
    if ifname:
        exported["NCCL_SOCKET_IFNAME"] = ifname
    if not is_open_mpi(launcher):
        command = [launcher, *(["-iface", ifname] if ifname else [])]
        command += ["-hosts", ",".join(f"{host}:{count}" for host, count in placed)] if placed else []
        command += ["-genv", "NCCL_SOCKET_IFNAME", ifname] if ifname else []
        return command + ["-n", ranks, *worker, *program]
    command = [launcher]
    if placed:
        command += ["-H", ",".join(f"{host}:{count}" for host, count in placed)]
    else:
        command += ["--oversubscribe"]
    command += ["-np", ranks, "--bind-to", "none"]
    if ifname:
        for parameter in ("btl_tcp_if_include", "oob_tcp_if_include"):
            command += ["--mca", parameter, ifname]
    if port:
        command += ["--mca", "btl_tcp_port_min_v4", str(positive("--start_port", port))]
    for name in sorted(exported):
        command += ["-x", f"{name}={exported[name]}" if name == "NCCL_SOCKET_IFNAME" and ifname else name]
    return command + worker + program


def main():
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if words else 2
    if os.path.basename(words[0]).split(".")[0] in ("mpirun", "mpiexec", "srun"):
        return run(words)
    try:
        options, rest = parse(words)
        node = options.get("node_rank", ("", "0"))[1]
        hosts = hosts_of(options) if node == "0" else []
        if node != "0":
            print(f"{NAME}: node rank {node} starts nothing: the ranks of all hosts are started on the first one, by --node_rank 0")
            return 0
        program = program_of(rest[0])
        arguments, notes = translate(rest[1:]) if os.path.basename(program).endswith("train") else (rest[1:], [])
        if "gpus" in options and "--device" not in arguments:
            arguments += ["--device", options["gpus"][1]]
        command = command_of(options, hosts, [program, *arguments])
    except UsageError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    for note in notes:
        print(f"{NAME}: {note}", file=sys.stderr)
    if options.get("dry_run"):
        print(shlex.join(command))
        return 0
    return run(command)


if __name__ == "__main__":
    sys.exit(main())
