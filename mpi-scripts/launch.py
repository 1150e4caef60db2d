#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a launch command so that the program's own error message comes last, below what the launcher says.

  launch.py mpirun -np 2 build/release/bin/train --dataset mnist --data-dir DIR

Standard error passes through, line by line. A line that a program of the command has written ("train: rank 1 on …") is
held back until the job has ended, or for HOLD seconds, so that it stands below the boxes that mpirun prints. Standard
output is left alone. SIGTERM, SIGUSR1 and SIGHUP are passed on, and the exit code is the command's.
"""
import os
import select
import signal
import subprocess
import sys
import time

HOLD = 5  # seconds: a line that is no last one, such as a warning, should not be late


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


def main():
    command = sys.argv[1:]
    if not command or command[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if command else 2
    try:
        job = subprocess.Popen(command, stderr=subprocess.PIPE)
    except OSError as error:
        print(f"launch.py: cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        signal.signal(number, lambda received, _: job.send_signal(received))
    signal.signal(signal.SIGINT, lambda *_: None)  # a terminal sends it to the launcher as well
    forward(job, {os.path.basename(word).encode() for word in command[1:]})
    code = job.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
