# SPDX-License-Identifier: Apache-2.0
"""Prints facts about the host it runs on, for the checks before a start (preflight.py), and measures its links and its speed.

preflight.py sends probe_links.py and this text to `python3` on each host, so they need no other file and no package. It reads a request, prints
facts, reads a plan, and prints measurements; each is one line of JSON, behind MARK in what it prints, because login shells
print, too. What may block, such as a network file system that does not answer, runs in a child with a deadline.
"""
import ctypes
import fcntl
import hashlib
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time

MARK = "lockstep-probe "
SAMPLED_FILES = 64  # of the data, whose content is sampled
MOST_FILES = 2000  # of the data, whose names and sizes are compared
BLOCK = 4096


def say(kind, values):
    sys.stdout.write(MARK + json.dumps(dict(values, kind=kind, time=time.time())) + "\n")
    sys.stdout.flush()


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Child:
    """Runs a function in a process of its own, which is killed if it does not end in time."""

    def __init__(self, function, *arguments):
        self.reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                die_with_parent()
                null = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):  # the connection to this host must end even if this process cannot
                    os.dup2(null, stream)
                try:
                    result = function(*arguments)
                except OSError as error:
                    result = {"error": "%s: %s" % (error.filename or "", error.strerror)}
                os.write(writer, json.dumps(result).encode())
            finally:
                os._exit(0)
        os.close(writer)

    def result(self, deadline):
        data = b""
        while True:
            if not select.select([self.reader], [], [], max(0, deadline - time.monotonic()))[0]:
                os.kill(self.pid, signal.SIGKILL)
                return {"error": "no answer in time", "timeout": True}
            block = os.read(self.reader, 65536)
            if not block:
                os.waitpid(self.pid, 0)
                return json.loads(data.decode() or "{}")
            data += block


def read_text(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def output_of(command, environment=None):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    except OSError:
        return None
    return done.stdout.decode(errors="replace")


# Programs.

def build_id(path):
    """The build id that the linker has written, or the SHA-256 of a file without one."""
    with open(path, "rb") as file:
        head = file.read(64)
        if head[:6] == b"\x7fELF\x02\x01":
            offset, (size, number) = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<HH", head, 54)
            for i in range(number):
                file.seek(offset + i * size)
                kind, _, begin, _, _, length = struct.unpack_from("<IIQQQQ", file.read(size))
                if kind != 4:  # PT_NOTE
                    continue
                file.seek(begin)
                notes = file.read(min(length, 65536))
                while len(notes) >= 12:
                    name_size, text_size, note = struct.unpack_from("<III", notes)
                    text = 12 + (name_size + 3) // 4 * 4
                    if note == 3 and notes[12:16] == b"GNU\0":
                        return notes[text:text + text_size].hex()
                    notes = notes[text + (text_size + 3) // 4 * 4:]
        file.seek(0)
        total = hashlib.sha256()
        for block in iter(lambda: file.read(1 << 20), b""):
            total.update(block)
        return total.hexdigest()


def libraries(path, environment):
    """The libraries of a program that are missing, and the files of its MPI libraries."""
    missing, files = [], set()
    for line in (output_of([shutil.which("ldd") or "ldd", path], environment) or "").splitlines():
        name, _, place = line.strip().partition(" => ")
        if place.startswith("not found"):
            missing.append(name)
        elif re.match(r"lib(mpi|mpich|open-rte|open-pal|prrte)\b", name):
            files.add(os.path.basename(os.path.realpath(place.split(" (")[0])))
    return {"missing": missing, "mpi": sorted(files)}


def program_facts(word, folder, variables):
    """@param variables  that the ranks have, and the daemon of the MPI launcher has not"""
    environment = dict(os.environ, **variables)
    found = os.path.join(folder, word) if os.sep in word else shutil.which(word, path=environment.get("PATH"))
    if not found or not os.path.isfile(found):
        return {"error": "not found"}
    if not os.access(found, os.X_OK):
        return {"error": "not executable", "path": found}
    return dict(libraries(found, environment), path=found, id=build_id(found))


# Files.

def kind_of(mode):
    for test, name in ((stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device")):
        if test(mode):
            return name
    return ""


def files_below(path):
    if not os.path.isdir(path):
        return [path]
    found = []
    for folder, folders, names in os.walk(path, followlinks=True, onerror=lambda error: found.append(error.filename)):
        folders.sort()
        found += [os.path.join(folder, name) for name in sorted(names)]
        if len(found) > MOST_FILES:
            break
    return found[:MOST_FILES]


def fingerprint(path):
    """A hash of the names and sizes of all files, and of samples of their content."""
    total = hashlib.sha256()
    files = files_below(path)
    every = max(1, len(files) // SAMPLED_FILES)
    size = 0
    for number, name in enumerate(files):
        status = os.stat(name)
        strange = kind_of(status.st_mode)
        if strange:
            return {"error": "%s: it is %s, which nobody may ever write" % (name, strange), "strange": name}
        size += status.st_size
        total.update(("%s\0%d\0" % (os.path.relpath(name, path), status.st_size)).encode())
        if number % every == 0:
            with open(name, "rb") as file:
                for offset in (0, status.st_size // 2, max(0, status.st_size - BLOCK)):
                    file.seek(offset)
                    total.update(file.read(BLOCK))
    return {"hash": total.hexdigest(), "files": len(files), "bytes": size}


def writable(path):
    """Why a folder that need not exist cannot be written; the nearest one that exists decides."""
    while not os.path.lexists(path):
        path = os.path.dirname(path) or "/"
    if not os.path.isdir(path):
        return {"error": "%s: it is no folder" % path}
    with tempfile.TemporaryFile(dir=path) as file:
        file.write(b"x" * BLOCK)
        file.flush()
    status = os.statvfs(path)
    return {"free": status.f_bavail * status.f_frsize}


# The machine.

def interfaces():
    """IPv4 interfaces: name, address, netmask, and whether each is up."""
    asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found = []
    for _, name in socket.if_nameindex():
        wanted = struct.pack("256s", name.encode()[:15])
        try:
            address, mask = (socket.inet_ntoa(fcntl.ioctl(asker, code, wanted)[20:24]) for code in (0x8915, 0x891b))
        except OSError:
            address = mask = ""
        flags = struct.unpack("16xH", fcntl.ioctl(asker, 0x8913, wanted)[:18])[0]
        found.append({"name": name, "address": address, "mask": mask, "up": bool(flags & 1)})
    return found


def cgroup_value(name, old_name):
    """The smallest number of this name in the control groups of this process; None without a limit."""
    values = []
    for line in read_text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = "/sys/fs/cgroup" + ("/memory" if controllers else "")
        while True:
            text = read_text(root + path.rstrip("/") + "/" + (old_name if controllers else name)).strip()
            if text.isdigit() and int(text) < 1 << 60:
                values.append(int(text))
            if path in ("/", ""):
                break
            path = os.path.dirname(path)
    return min(values) if values else None


def limits():
    def limit(which):
        soft = resource.getrlimit(which)[0]
        return None if soft == resource.RLIM_INFINITY else soft
    quota = read_text("/sys/fs/cgroup/cpu.max").split()
    available = re.search(r"MemAvailable:\s+(\d+)", read_text("/proc/meminfo"))
    return {"address_space": limit(resource.RLIMIT_AS), "locked": limit(resource.RLIMIT_MEMLOCK),
            "files": limit(resource.RLIMIT_NOFILE), "file_size": limit(resource.RLIMIT_FSIZE),
            "cgroup": cgroup_value("memory.max", "memory.limit_in_bytes"),
            "available": int(available.group(1)) * 1024 if available else None,
            "cpus": sorted(os.sched_getaffinity(0)),
            "quota": int(quota[0]) / int(quota[1]) if len(quota) == 2 and quota[0].isdigit() else None}


def shared_memory():
    if not os.path.isdir("/dev/shm"):
        return {"error": "it is missing"}
    return writable("/dev/shm")


def gpus(machine):
    """Index, name and UUID of each GPU, from nvidia-smi, or from the description of an emulated machine."""
    if machine:
        with open(machine) as file:
            return {"gpus": [[index, gpu["name"], gpu["uuid"], gpu.get("clock", "")] for index, gpu in enumerate(json.load(file)["gpus"])]}
    text = output_of(["nvidia-smi", "--query-gpu=index,name,uuid,clocks.max.sm", "--format=csv,noheader"])
    if text is None:
        return {"error": "nvidia-smi is missing"}
    rows = [[part.strip() for part in line.split(",")] for line in text.splitlines()]
    if not all(len(row) == 4 and row[0].isdigit() for row in rows):
        return {"error": "nvidia-smi: " + text.strip().splitlines()[0]}
    return {"gpus": [[int(row[0])] + row[1:] for row in rows]}


def taken_ports(first, number):
    taken = []
    for port in range(first, min(first + number, 65536)):
        with socket.socket() as asker:
            try:
                asker.bind(("", port))
            except OSError:
                taken.append(port)
    return taken


def facts_of(request, deadline):
    machine = request["variables"].get("EMULATED_GPU_MACHINE") or os.environ.get("EMULATED_GPU_MACHINE")
    children = {"program": Child(program_facts, request["program"], request["folder"], request["variables"]), "shm": Child(shared_memory)}
    if request["daemon"]:
        children["daemon"] = Child(program_facts, request["daemon"], request["folder"], {})
    for path in request["data"]:
        children["data " + path] = Child(fingerprint, os.path.join(request["folder"], path))
    for path in request["writable"]:
        children["writable " + path] = Child(writable, os.path.join(request["folder"], path))
    if request["gpus"]:
        children["gpus"] = Child(gpus, machine)
    temporary = os.environ.get("TMPDIR") or "/tmp"
    children["tmp"] = Child(writable, temporary)
    facts = {"host": socket.gethostname(), "boot_id": read_text("/proc/sys/kernel/random/boot_id").strip() or socket.gethostname(),
             "network": os.readlink("/proc/self/ns/net"), "interfaces": interfaces(), "limits": limits(), "tmp_folder": temporary,
             "infiniband": os.path.isdir("/sys/class/infiniband") and bool(os.listdir("/sys/class/infiniband")),
             "folder": os.path.isdir(request["folder"]), "taken": taken_ports(request["port"], request["ranks"]) if request["port"] else []}
    return dict(facts, **{name: child.result(deadline) for name, child in children.items()})


def main():
    request = json.loads(sys.stdin.buffer.readline().decode())
    die_with_parent()
    listener = socket.socket()
    listener.bind(("", 0))
    listener.listen(128)
    facts = facts_of(request, time.monotonic() + request["seconds"])
    say("facts", dict(facts, port=listener.getsockname()[1]))
    line = sys.stdin.buffer.readline()
    if line:
        say("clock", {})
        say("measurements", measure(json.loads(line.decode()), listener, request["token"].encode(), request["link_seconds"]))
    os._exit(0)


main()
