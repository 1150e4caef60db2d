#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts a program on one or several hosts by mpirun, from the options of fleetrun, paddle.distributed.launch, torchrun and mpirun.

  launch.sh -H host1,host2 -np 16 train --model resnet18 …
  launch.sh --ips=10.0.0.1,10.0.0.2 --gpus 0,1,2,3 train.py -c FILE --save_dir output
  launch.sh python -m torch.distributed.run --nproc_per_node 2 train.py --batch 64 --device 0,1 --sync-bn
  launch.sh --preflight -H host1,host2 -np 16 train …   checks the hosts, and starts nothing
  launch.sh [--max_restart N] mpirun --any-option … train …       that command as it is

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
  --log_dir DIR                       the output of rank N goes to DIR/workerlog.N, each line behind its time, rank and host;
                                      rank 0's is shown, too, and after a failure the end of the log of the rank at fault
  --max_restart N                     start again after failures, N times at most, from the last checkpoint; without a host
                                      that has failed twice
  --min_ranks N                       but not with fewer ranks (1)
  --preflight                         check the hosts, and start nothing
  --no-preflight                      do not check them before a start on other hosts
  --dry-run                           print the command instead of starting it; nothing is checked
  --master_addr, --master_port, --use_env, --rdzv_*   accepted, and not needed: MPI finds the ranks

The program comes next: train, its path, train.py, which means train, or any other program. "python", "python -m LAUNCHER",
"torchrun" and the like may stand before it, or before the options above. train reads its own options before anything is started:
those of PaddlePaddle's, YOLOv5's and other trainers under their names, too (docs/other-options.md); what it understands in another
way than it was typed is reported. Variables of MPI, NCCL, OpenMP, CUDA and lockstep are forwarded to all ranks. OMP_NUM_THREADS is
chosen unless it is set, and OMP_WAIT_POLICY=passive if ranks share processors.

Standard error passes through, line by line. A line that the program has written ("train: rank 1 on …") is held back until the
job has ended, or for 5 seconds, so that it stands below the boxes that mpirun prints; the root cause comes first among these.
The command has a session of its own, so that it does not end with the terminal, and /dev/null as its input. SIGTERM, SIGINT, SIGTSTP,
SIGUSR1 and SIGUSR2 are passed on, SIGHUP as SIGTERM, unless they are ignored, as nohup does with SIGHUP. The exit code is the command's.
A command line that cannot be understood ends with 2, before anything is started, and a failed check with 1.
"""
import os
import pathlib
import re
import shlex
import sys
import traceback

sys.dont_write_bytecode = True
for stream in range(3):  # streams that are closed: other files would get their numbers
    try:
        os.fstat(stream)
    except OSError:
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
sys.stdout = sys.stdout or os.fdopen(1, "w")
sys.stderr = sys.stderr or os.fdopen(2, "w")
HERE = pathlib.Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent if (HERE / "reader.py").exists() else HERE.parent / "share/lockstep")

# pylint: disable=wrong-import-position
from launch import command, job, restarts, session, slurm  # noqa: E402
from launch.options import NAME, UsageError, hosts_of, parse, port_of, positive, spread  # noqa: E402
from launch.printable import Printable  # noqa: E402
from launch.reader import Refused, program_of, read  # noqa: E402

OF_GIVEN_COMMANDS = {"max_restart", "min_ranks", "dry_run"}


def is_launcher(word):
    return os.path.basename(word).split(".")[0] in command.LAUNCHERS


def given_run(options, words, signals):
    """A run by a command that the user has written. @throws UsageError"""
    wrong = [value[0] if isinstance(value, tuple) else "--" + name.replace("_", "-") for name, value in options.items()
             if name and name not in OF_GIVEN_COMMANDS]
    if wrong:
        raise UsageError(f"{wrong[0]} does not go with a command of {os.path.basename(words[0])}, which is run as it is: "
                         "write the program alone")
    mistake = slurm.mistake(words) if os.path.basename(words[0]) == "srun" else ""
    if mistake:
        raise UsageError(mistake)
    return session.Given(words, signals, "max_restart" in options)


def own_run(options, words, signals):
    """A run from the launcher's options. @throws UsageError"""
    hosts = hosts_of(options)
    program, arguments = program_of(words[0]), words[1:]
    port_of(options)
    found = read(program, tuple(arguments))
    if "gpus" in options and "device" not in (found.values if found else ()) and "--device" not in arguments:
        arguments = [*arguments, "--device", options["gpus"][1]]
        found = read(program, tuple(arguments))
    counts = spread(options, hosts)
    placed = {host: count for (host, _), count in zip(hosts or [(None, None)], counts) if count > 0}
    run = session.Own(options, placed, [program, *(found.words if found else arguments)], signals, "max_restart" in options)
    for text in found.notes if found else ():
        session.note(text)
    return run


def main():
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        print(__doc__.replace("launch.sh", NAME) if os.path.basename(sys.argv[0]) == NAME else __doc__)
        return 0 if words else 2
    try:
        options, rest = parse(words) if not is_launcher(words[0]) else ({}, words)
        node = options.get("node_rank", ("", "0"))[1]
        if node != "0":
            print(f"{NAME}: node rank {node} starts nothing: the ranks of all hosts are started on the first one, by --node_rank 0")
            return 0
        limit = options.get("max_restart", ("", "0"))[1]
        if not re.fullmatch(r"\d{1,7}", limit, re.ASCII):
            raise UsageError(f"{' '.join(options['max_restart'])}: give a number of restarts, from 0 on")
        least = positive(*options["min_ranks"]) if "min_ranks" in options else 1
        signals = job.Signals()
        run = (given_run if is_launcher(rest[0]) else own_run)(options, rest, signals)
        if "preflight" in options:
            return 1 if run.check(run.placed, True).failures else 0
        if "dry_run" in options:
            print(shlex.join(run.words if is_launcher(rest[0]) else run.command(run.placed, 0)))
            return 0
        return restarts.supervise(run, int(limit), least)
    except UsageError as error:
        print(error if isinstance(error, Refused) else f"{NAME}: {error}", file=sys.stderr)
        return 2


def guarded():
    """What main() returns; of an error that nobody expected, a line says what it is, and where."""
    sys.stderr = Printable(sys.stderr)
    try:
        try:
            os.getcwd()
        except OSError:
            print(f"{NAME}: the working folder no longer exists: change into another one", file=sys.stderr)
            return 2
        if sys.stdout is None:  # it is closed
            return main()
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # a path may have any bytes
        code = main()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # nobody reads the output any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except OSError as error:
        print(f"{NAME}: {error.filename}: {error.strerror}" if error.filename else f"{NAME}: {error.strerror}", file=sys.stderr)
        return 1
    except Exception as error:  # pylint: disable=broad-except
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f" (at {os.path.basename(place.filename)}:{place.lineno}, a mistake of this program: please report it)"
        print(f"{NAME}: {type(error).__name__}: {error}{where}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(guarded())
