# SPDX-License-Identifier: Apache-2.0
"""What the facts of one host (probe.py) say about the start of a run there. Each check yields findings."""
import os
import re
import shlex

from launch import agents
from launch.plan import Finding, copied, on

MIB = 1 << 20
SHM_PER_RANK, SHM_PER_GPU = 8 * MIB, 32 * MIB  # of Open MPI's and NCCL's files in /dev/shm
LEAST_MEMORY, LITTLE_MEMORY = 128 * MIB, 512 * MIB  # of a rank: its libraries alone, and a small model with them
LEAST_ADDRESS_SPACE = 2 << 30
LEAST_FILES = 256
LITTLE_TMP = 16 * MIB
LITTLE_ROOM = 256 * MIB  # of checkpoints


def reachable(host, facts, plan):
    said = facts.get("unreachable")
    if said is None:
        return
    if not agents.address_of(host):
        said = "Could not resolve"
    last = said.splitlines()[-1] if said else "no answer in time"
    for pattern, what, remedy in (
            ("Could not resolve|Name or service not known", "its name does not resolve",
             f"correct the name, or add it to /etc/hosts or DNS; getent hosts {host} must print its address"),
            ("Permission denied", f"it refuses a login without a password ({last})", f"ssh-copy-id {host}"),
            ("Host key verification failed", "its host key is unknown or has changed", f"ssh-keyscan -H {host} >> ~/.ssh/known_hosts"),
            ("Connection refused", "nothing answers at the port of ssh", f"on {host}: systemctl start ssh"),
            ("timed out|No route|unreachable", f"it cannot be reached ({last})", f"ping {host}; look at its power, network and firewall"),
            ("python3.*not found|No such file.*python3", "python3 is missing, so nothing else could be checked",
             f"on {host}: apt-get install python3; or leave the checks out with --no-preflight")):
        if re.search(pattern, said):
            yield Finding(host, what, remedy)
            return
    yield Finding(host, f"it does not answer ({last})", shlex.join([*agents.agent(), host, "true"]) + " must print nothing and end with 0")


def program(host, facts, plan):
    word, found = plan.program, facts["program"]
    if found.get("timeout"):
        yield Finding(host, f"{word} cannot be read in time", f"{on(host, 'df ' + shlex.quote(word))}: does the file system answer?")
    elif found.get("error") == "not executable":
        yield Finding(host, f"{found['path']} is not executable", on(host, f"chmod +x {shlex.quote(found['path'])}"))
    elif found.get("error"):
        yield Finding(host, f"the program {word} is {found['error']}", f"{copied(word, host)}, or use a shared file system")
    elif found["missing"]:
        yield Finding(host, f"{word} lacks the libraries {', '.join(found['missing'])}",
                      f"install them on {host}, or name their folder in LD_LIBRARY_PATH, which is forwarded")
    if not facts["folder"]:
        yield Finding(host, "the working folder of the launcher does not exist", on(host, "mkdir -p " + shlex.quote(os.getcwd())) + ", or give absolute paths", False)


def daemon(host, facts, plan):
    found = facts.get("daemon", {})
    if found.get("error") and not agents.is_here(host):
        yield Finding(host, f"{plan.daemon}, by which MPI starts ranks there, is {found['error']}",
                      f"install the same MPI on {host}, and put it in PATH for shells that are not interactive (first lines of ~/.bashrc)")


def files(host, facts, plan):
    for path in plan.data:
        found = facts["data " + path]
        if found.get("timeout"):
            yield Finding(host, f"{path} cannot be read in time", f"{on(host, 'ls ' + shlex.quote(path))}: does the file system answer? Mount it again")
        elif found.get("strange"):
            yield Finding(host, found["error"], on(host, "ls -l " + shlex.quote(found["strange"])))
        elif found.get("error"):
            yield Finding(host, f"{path} cannot be read ({found['error']})", f"{copied(path, host)}, or use a shared file system")
    for path in plan.writable:
        found = facts["writable " + path]
        if found.get("error"):
            yield Finding(host, f"{path} cannot be written ({found['error']})", f"choose another folder, or {on(host, 'mkdir -p ' + shlex.quote(path))}")
    if plan.saves and host == plan.hosts[0]:  # rank 0 writes for all
        found = facts["writable " + plan.saves]
        if found.get("error"):
            yield Finding(host, f"checkpoints cannot be saved in {plan.saves} ({found['error']})", "another --save-dir, or --save-dir none",
                          plan.must_save)
        elif found["free"] < LITTLE_ROOM:
            yield Finding(host, f"there are {found['free'] // MIB} MiB free for checkpoints in {plan.saves}",
                          f"free space, choose another --save-dir, or name a second one with --save-fallback; {on(host, 'df ' + shlex.quote(plan.saves))}", False)


def clock(host, facts, plan):
    stamp = facts["clock"]
    if not stamp:
        return
    off = max(stamp["time"] - stamp["read"], stamp["sent"] - stamp["time"])
    if off > 1:
        ahead = stamp["time"] > stamp["read"]
        yield Finding(host, f"its clock is {off:.1f} s {'ahead of' if ahead else 'behind'} that of the launcher",
                      on(host, "sudo chronyc makestep") + " (or: timedatectl set-ntp true)")


def memory(host, facts, plan):
    shm, limits, ranks = facts["shm"], facts["limits"], plan.ranks[host]
    need = (SHM_PER_GPU if plan.gpus else SHM_PER_RANK) * ranks
    remedy = f"mount -o remount,size={max(64, 2 * need // MIB)}m /dev/shm (in a container: --shm-size)"
    if shm.get("error"):
        yield Finding(host, f"/dev/shm cannot be used ({shm['error']})", "mount -t tmpfs tmpfs /dev/shm")
    elif shm["free"] < need:
        yield Finding(host, f"/dev/shm has {shm['free'] // MIB} MiB free, and {ranks} ranks need {need // MIB}", remedy)
    if facts["tmp"].get("error") or facts["tmp"]["free"] < LITTLE_TMP:
        what = facts["tmp"].get("error") or f"{facts['tmp']['free'] // MIB} MiB free"
        yield Finding(host, f"MPI needs its folder of temporary files, {facts['tmp_folder']} ({what})", "free space there, or set TMPDIR")
    space = limits["address_space"]
    if space is not None and space < LEAST_ADDRESS_SPACE:
        yield Finding(host, f"ulimit -v is {space >> 10} KiB, too little to start a rank", "ulimit -v unlimited (in /etc/security/limits.conf: as)")
    room = min((value for value in (limits["cgroup"], limits["available"]) if value is not None), default=None)
    if room is not None and room < LITTLE_MEMORY * ranks:
        fails = room < LEAST_MEMORY * ranks
        whose = "its control group allows" if room == limits["cgroup"] else "it has"
        yield Finding(host, f"{whose} {room // MIB} MiB of memory for {ranks} ranks", "start fewer ranks there, or raise the limit", fails)
    if limits["files"] is not None and limits["files"] < LEAST_FILES:
        yield Finding(host, f"ulimit -n is {limits['files']}, too few open files", "ulimit -n 4096 (in /etc/security/limits.conf: nofile)")
    if limits["file_size"] is not None:
        yield Finding(host, f"ulimit -f limits files to {limits['file_size'] // 1024} KiB, checkpoints too", "ulimit -f unlimited", False)
    if facts["infiniband"] and limits["locked"] is not None and limits["locked"] < 1 << 30:
        yield Finding(host, f"ulimit -l is {limits['locked'] >> 10} KiB, too little for InfiniBand",
                      "ulimit -l unlimited (in limits.conf: memlock)", False)


def devices(host, facts, plan):
    if not plan.gpus:
        return
    found = facts["gpus"]
    twice = sorted({gpu for gpu in plan.gpus if plan.gpus.count(gpu) > 1})
    if twice:
        yield Finding(host, f"GPU {twice[0]} is listed twice, and two ranks cannot share it", f"list {len(plan.gpus)} different GPUs")
    if "gpus" not in found:
        fails = found["error"] != "nvidia-smi is missing"  # without it the program says whether there are GPUs
        yield Finding(host, f"its GPUs cannot be checked ({found['error']})", on(host, "nvidia-smi"), fails)
        return
    number = len(found["gpus"])
    absent = [gpu for gpu in plan.gpus if gpu >= number]
    if absent:
        yield Finding(host, f"there is no GPU {absent[0]}: it has {number}",
                      f"list GPUs from 0 to {number - 1}" if number else on(host, "nvidia-smi"))


def ports(host, facts, plan):
    if facts["taken"]:
        yield Finding(host, f"port {facts['taken'][0]} is taken, so MPI uses later ones",
                      f"another --start_port; who has it: {on(host, 'ss -ltnp')}", False)
