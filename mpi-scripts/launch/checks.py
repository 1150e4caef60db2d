# SPDX-License-Identifier: Apache-2.0
"""What the facts of the hosts of a run (probe.py) say about its start: one finding for each mistake, with the command that mends it."""
import collections
import dataclasses
import ipaddress
import re
import shlex
import statistics

from launch import agents

MIB = 1 << 20
SHM_PER_RANK, SHM_PER_GPU = 8 * MIB, 32 * MIB  # of Open MPI's and NCCL's files in /dev/shm
LEAST_MEMORY, LITTLE_MEMORY = 128 * MIB, 512 * MIB  # of a rank: its libraries alone, and a small model with them
LEAST_ADDRESS_SPACE = 2 << 30
LEAST_FILES = 256
LITTLE_TMP = 16 * MIB


@dataclasses.dataclass
class Plan:
    """A run, as far as the hosts have to agree about it."""
    hosts: list
    ranks: dict  # by host
    program: str
    daemon: str = ""  # of the MPI launcher, by which it starts ranks on other hosts
    data: list = dataclasses.field(default_factory=list)  # files and folders that all hosts read
    writable: list = dataclasses.field(default_factory=list)  # folders that all hosts write
    variables: dict = dataclasses.field(default_factory=dict)
    threads: int = 1
    gpus: list = dataclasses.field(default_factory=list)
    ifname: str = ""
    port: int = 0


@dataclasses.dataclass
class Finding:
    host: str
    what: str
    remedy: str
    fails: bool = True

    def text(self):
        return f"{'error' if self.fails else 'warning'}: {self.host}: {self.what}. To mend it: {self.remedy}"


def on(host, command):
    return command if agents.is_here(host) else f"ssh {host} {command}"


# One host at a time.

def reachable(host, facts, plan):
    said = facts.get("unreachable")
    if said is None:
        return
    if not agents.address_of(host):
        said = "Could not resolve"
    last = said.splitlines()[-1] if said else "no answer in time"
    for pattern, what, remedy in (
            ("Could not resolve|Name or service not known", "its name does not resolve", f"correct the name, or add it to /etc/hosts or DNS; getent hosts {host} must print its address"),
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
    for word, found in facts["programs"].items():
        is_daemon = word == plan.daemon
        if found.get("timeout"):
            yield Finding(host, f"{word} cannot be read in time", f"{on(host, 'df ' + word)}: does the file system answer?")
        elif found.get("error") and is_daemon:
            yield Finding(host, f"{word}, by which MPI starts ranks there, is {found['error']}",
                          f"install the same MPI on {host}, and put it in PATH for shells that are not interactive (first lines of ~/.bashrc)")
        elif found.get("error") == "not executable":
            yield Finding(host, f"{found['path']} is not executable", on(host, f"chmod +x {found['path']}"))
        elif found.get("error"):
            yield Finding(host, f"the program {word} is {found['error']}", f"rsync -a {word} {host}:{word}, or use a shared file system")
        elif found["missing"]:
            yield Finding(host, f"{word} lacks the libraries {', '.join(found['missing'])}",
                          f"install them on {host}, or name their folder in LD_LIBRARY_PATH, which is forwarded")
    if not facts["folder"]:
        yield Finding(host, "the working folder of the launcher does not exist", on(host, "mkdir -p \"$PWD\"") + ", or give absolute paths", False)


def files(host, facts, plan):
    for path in plan.data:
        found = facts["data " + path]
        if found.get("timeout"):
            yield Finding(host, f"{path} cannot be read in time", f"{on(host, 'ls ' + path)}: does the file system answer? Mount it again")
        elif found.get("strange"):
            yield Finding(host, found["error"], on(host, "ls -l " + found["strange"]))
        elif found.get("error"):
            yield Finding(host, f"{path} cannot be read ({found['error']})", f"rsync -a {path} {host}:{path}, or use a shared file system")
    for path in plan.writable:
        found = facts["writable " + path]
        if found.get("error"):
            yield Finding(host, f"{path} cannot be written ({found['error']})", f"choose another folder, or {on(host, 'mkdir -p ' + path)}")


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
        yield Finding(host, f"ulimit -l is {limits['locked'] >> 10} KiB, too little for InfiniBand", "ulimit -l unlimited (in limits.conf: memlock)", False)


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
        yield Finding(host, f"there is no GPU {absent[0]}: it has {number}", f"list GPUs from 0 to {number - 1}" if number else on(host, "nvidia-smi"))


def ports(host, facts, plan):
    if facts["taken"]:
        yield Finding(host, f"port {facts['taken'][0]} is taken, so MPI uses later ones",
                      f"another --start_port; who has it: {on(host, 'ss -ltnp')}", False)


# All hosts together.

def by_value(answers, value):
    """Hosts by what they have. @return None if all have the same"""
    groups = collections.defaultdict(list)
    for host, facts in answers.items():
        found = value(facts)
        if found is not None:
            groups[found].append(host)
    return dict(groups) if len(groups) > 1 else None


def odd_ones(answers, value):
    """Each host that differs from most, or from the first, with its value, and a host that has the usual one."""
    groups = by_value(answers, value)
    if not groups:
        return
    first = next(iter(groups))
    usual = max(groups, key=lambda found: (len(groups[found]), found == first))
    for found, hosts in groups.items():
        for host in hosts if found != usual else ():
            yield host, found, groups[usual][0], usual


def same_files(answers, plan):
    for host, found, other, usual in odd_ones(answers, lambda facts: facts["programs"][plan.program].get("id")):
        yield Finding(host, f"{plan.program} has the build id {found[:12]}, but {usual[:12]} on {other}",
                      f"copy the program of {other}: rsync -a {plan.program} {host}:{plan.program}")
    for word in (plan.program, plan.daemon):
        value = lambda facts: ", ".join(facts["programs"].get(word, {}).get("mpi") or ()) or None
        for host, found, other, usual in odd_ones(answers, value):
            yield Finding(host, f"{word} uses {found}, but {usual} on {other}", f"install the same version of MPI on {host} and {other}")
    for path in plan.data:
        for host, found, other, usual in odd_ones(answers, lambda facts: facts["data " + path].get("hash")):
            what = [f"{answers[one]['data ' + path]['files']} files of {answers[one]['data ' + path]['bytes']} bytes" for one in (host, other)]
            yield Finding(host, f"{path} has other content than on {other} ({what[0]}, and {what[1]})",
                          f"rsync -ac --delete {path}{'' if what[0].startswith('1 ') else '/'} {host}:{path}")


def same_gpus(answers, plan):
    if not plan.gpus:
        return
    kinds = lambda facts: ", ".join(sorted({f"{gpu[1]} {gpu[3]}".strip() for gpu in facts["gpus"].get("gpus", [])})) or None
    for host, found, other, usual in odd_ones(answers, kinds):
        yield Finding(host, f"its GPUs are {found}, but {usual} on {other}: the fast ones will wait", f"leave {host} out", False)
    owners = {}
    for host, facts in answers.items():
        listed = {gpu[2] for gpu in facts["gpus"].get("gpus", []) if gpu[0] in plan.gpus}
        for uuid in sorted(listed):
            if owners.setdefault(uuid, host) != host:
                yield Finding(host, f"GPU {uuid} is that of {owners[uuid]}, too: both are one machine", f"list only one of {owners[uuid]} and {host}")
                break


def identities(answers, plan):
    seen = {}
    for host, facts in answers.items():
        place = (facts["boot_id"], facts["network"], facts["host"])
        if place in seen:
            both = plan.ranks[host] + plan.ranks[seen[place]]
            yield Finding(host, f"it is the same host as {seen[place]}", f"list it once: {seen[place]}:{both}")
        seen.setdefault(place, host)
    names = {}
    for host, facts in answers.items():
        if facts["host"] in names and (facts["boot_id"], facts["network"], facts["host"]) != names[facts["host"]][1]:
            yield Finding(host, f"it calls itself {facts['host']}, as {names[facts['host']][0]} does, and MPI takes both for one host",
                          on(host, f"hostnamectl set-hostname {host}"))
        names.setdefault(facts["host"], (host, (facts["boot_id"], facts["network"], facts["host"])))


def networks_of(facts):
    """By interface, the network that it is in."""
    return {entry["name"]: ipaddress.ip_interface(f"{entry['address']}/{entry['mask']}").network
            for entry in facts["interfaces"] if entry["address"] and entry["up"] and not entry["address"].startswith("127.")}


def network(answers, plan):
    if plan.ifname:
        for host, facts in answers.items():
            found = {entry["name"]: entry for entry in facts["interfaces"]}.get(plan.ifname)
            names = ", ".join(entry["name"] for entry in facts["interfaces"] if entry["address"] and entry["name"] != "lo")
            if not found:
                yield Finding(host, f"there is no interface {plan.ifname}", f"--ifname with one of {names}")
            elif not found["up"]:
                yield Finding(host, f"interface {plan.ifname} is down", on(host, f"ip link set {plan.ifname} up"))
            elif not found["address"]:
                yield Finding(host, f"interface {plan.ifname} has no address", f"--ifname with one of {names}, or give it an address")
    elif len(answers) > 1 and not set.intersection(*(set(networks_of(facts).values()) for facts in answers.values())):
        host = next(iter(answers))
        yield Finding(host, "the hosts have no network in common", "ip address; put them into one network, or rely on routes between theirs", False)
    for host, facts in answers.items():
        routes = facts["measurements"].get("routes", {})
        for peer, why in routes.items():
            yield Finding(host, f"it has no route to {peer} at {answers[peer]['address']} ({why})", on(host, f"ip route get {answers[peer]['address']}"))
        link = facts["measurements"].get("link", {})
        if link.get("error") and facts["peer"] not in routes:
            address = answers[facts["peer"]]["address"]
            yield Finding(host, f"it cannot connect to {facts['peer']} at {address} ({link['error']})",
                          f"open the firewalls between both for TCP; try: {on(host, 'ping ' + address)}")


def excluded(answers):
    """Interfaces that several hosts have with one address, such as docker0: nobody reaches another host by them."""
    owners = collections.Counter((entry["name"], entry["address"]) for facts in answers.values() for entry in facts.get("interfaces", [])
                                 if entry["address"] and entry["name"] != "lo")
    return sorted({name for (name, _), number in owners.items() if number > 1})


def machines(answers):
    """Hosts by the machine that they are on: containers and namespaces of one have the same boot id."""
    groups = collections.defaultdict(list)
    for host, facts in answers.items():
        if "boot_id" in facts:
            groups[facts["boot_id"]].append(host)
    return list(groups.values())


def processors(answers, hosts):
    """How many processors hosts of one machine have together."""
    cpus = set().union(*(answers[host]["limits"]["cpus"] for host in hosts))
    quotas = [answers[host]["limits"]["quota"] for host in hosts]
    return min(len(cpus), max(1, int(sum(quotas)))) if None not in quotas else len(cpus)


def cores(answers, plan):
    for hosts in machines(answers):
        ranks, have = sum(plan.ranks[host] for host in hosts), processors(answers, hosts)
        if ranks * plan.threads > have:
            what = f"{ranks} ranks of {plan.threads} threads take turns on {have} processors" if plan.threads > 1 else f"{ranks} ranks take turns on {have} processors"
            where = " and ".join(hosts) + " are one machine: " if len(hosts) > 1 else ""
            yield Finding(hosts[0], where + what, "fewer ranks, or OMP_NUM_THREADS=1", False)


def slow_ones(answers, plan):
    for what, value, unit, remedy in (
            ("a loop of its processor runs at", lambda facts: facts["measurements"].get("speed"), "M turns/s", "top"),
            ("its link carries", lambda facts: facts["measurements"].get("link", {}).get("bytes_per_second"), "MB/s", "ethtool; ip -s link")):
        values = {host: value(facts) for host, facts in answers.items() if value(facts)}
        usual = statistics.median(values.values()) if len(values) > 1 else 0
        for host, found in values.items():
            if found < usual / 2:
                yield Finding(host, f"{what} {found / 1e6:.0f} {unit}, less than half of the usual {usual / 1e6:.0f}",
                              f"{on(host, remedy)}; what slows it down? Or leave it out", False)


OF_ONE = (program, files, clock, memory, devices, ports)
OF_ALL = (same_files, same_gpus, identities, network, cores, slow_ones)


def all_findings(answers, plan):
    """Findings, errors first, in the order of the hosts."""
    found = [finding for host in plan.hosts for finding in reachable(host, answers[host], plan)]
    answered = {host: answers[host] for host in plan.hosts if "unreachable" not in answers[host]}
    for host, facts in answered.items():
        for check in OF_ONE:
            found += check(host, facts, plan)
    if answered:
        for check in OF_ALL:
            found += check(answered, plan)
    return sorted(found, key=lambda finding: (not finding.fails, plan.hosts.index(finding.host)))
