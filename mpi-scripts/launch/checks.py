# SPDX-License-Identifier: Apache-2.0
"""Compares the facts of all hosts (probe.py): one finding for each mistake, with the command that mends it."""
import collections
import statistics

from launch import cluster, host_checks
from launch.plan import Finding, copied, on


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
    for host, found, other, usual in odd_ones(answers, lambda facts: facts["program"].get("id")):
        yield Finding(host, f"{plan.program} has the build id {found[:12]}, but {usual[:12]} on {other}",
                      f"copy the program of {other}: {copied(plan.program, host)}")
    for word, fact in ((plan.program, "program"), (plan.daemon, "daemon")):
        value = lambda facts: ", ".join(facts.get(fact, {}).get("mpi") or ()) or None
        for host, found, other, usual in odd_ones(answers, value):
            yield Finding(host, f"{word} uses {found}, but {usual} on {other}", f"install the same version of MPI on {host} and {other}")
    for path in plan.data:
        for host, found, other, usual in odd_ones(answers, lambda facts: facts["data " + path].get("hash")):
            what = [f"{answers[one]['data ' + path]['files']} files of {answers[one]['data ' + path]['bytes']} bytes" for one in (host, other)]
            yield Finding(host, f"{path} has other content than on {other} ({what[0]}, and {what[1]})",
                          copied(path, host, "-ac --delete", "" if what[0].startswith("1 ") else "/"))


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
    elif len(answers) > 1 and not set.intersection(*(set(cluster.networks_of(facts).values()) for facts in answers.values())):
        host = next(iter(answers))
        yield Finding(host, "the hosts have no network in common", "ip address; put them into one network, or rely on routes between theirs", False)
    for host, facts in answers.items():
        routes = facts["measurements"].get("routes", {})
        for peer, why in routes.items():
            yield Finding(host, f"it has no route to {peer} at {answers[peer]['address']} ({why})",
                          on(host, f"ip route get {answers[peer]['address']}"))
        link = facts["measurements"].get("link", {})
        if link.get("error") and facts["peer"] not in routes:
            address = answers[facts["peer"]]["address"]
            yield Finding(host, f"it cannot connect to {facts['peer']} at {address} ({link['error']})",
                          f"open the firewalls between both for TCP; try: {on(host, 'ping ' + address)}")


def cores(answers, plan):
    for hosts in cluster.machines(answers):
        ranks, have = sum(plan.ranks[host] for host in hosts), cluster.processors(answers, hosts)
        if ranks * plan.threads > have:
            of_threads = f" of {plan.threads} threads" if plan.threads > 1 else ""
            what = f"{ranks} ranks{of_threads} take turns on {have} processors"
            where = " and ".join(hosts) + " are one machine: " if len(hosts) > 1 else ""
            yield Finding(hosts[0], where + what, "fewer ranks, or OMP_NUM_THREADS=1", False)


def below_half(values):
    """The hosts that reach less than half of the median, which is the second result."""
    usual = statistics.median(values.values()) if len(values) > 1 else 0
    return {host for host, value in values.items() if value < usual / 2}, usual


def slow_processors(answers, plan):
    speeds = {host: facts["measurements"]["speed"] for host, facts in answers.items() if "speed" in facts["measurements"]}
    slow, usual = below_half(speeds)
    for host in sorted(slow):
        yield Finding(host, f"a loop of its processor runs at {speeds[host] / 1e6:.0f} M turns/s, less than half of the usual {usual / 1e6:.0f}",
                      f"{on(host, 'top')}; what slows it down? Or leave it out", False)


def slow_links(answers, plan):
    """A slow host also slows what the one before it sends, so that two of three links may be slow. Each host's faster link shows which
    host is slow, and what each sends shows a host that is slow in one direction."""
    sent = {host: facts["measurements"]["link"]["bytes_per_second"] for host, facts in answers.items()
            if "bytes_per_second" in facts["measurements"].get("link", {})}
    best = dict(sent)
    for host, rate in sent.items():
        peer = answers[host]["peer"]
        if peer in best:
            best[peer] = max(best[peer], rate)
    slow, usual = below_half(best)
    slow_one_way, usual_one_way = below_half(sent)
    for host in sorted(slow | slow_one_way):
        text = (f"its links carry {best[host] / 1e6:.0f} MB/s at most, less than half of the usual {usual / 1e6:.0f}" if host in slow else
                f"its link to {answers[host]['peer']} carries {sent[host] / 1e6:.0f} MB/s, less than half of the usual {usual_one_way / 1e6:.0f}")
        yield Finding(host, text, f"{on(host, 'ethtool; ip -s link')}; what slows it down? Or leave it out", False)


OF_ONE = (host_checks.program, host_checks.daemon, host_checks.files, host_checks.clock, host_checks.memory, host_checks.devices,
          host_checks.ports)
OF_ALL = (same_files, same_gpus, identities, network, cores, slow_processors, slow_links)


def all_findings(answers, plan):
    """Findings, errors first, in the order of the hosts."""
    found = [finding for host in plan.hosts for finding in host_checks.reachable(host, answers[host], plan)]
    answered = {host: answers[host] for host in plan.hosts if "unreachable" not in answers[host]}
    for host, facts in answered.items():
        for check in OF_ONE:
            found += check(host, facts, plan)
    if answered:
        for check in OF_ALL:
            found += check(answered, plan)
    return sorted(found, key=lambda finding: (not finding.fails, plan.hosts.index(finding.host)))
