# SPDX-License-Identifier: Apache-2.0
"""What the facts of all hosts (probe.py) say together: their machines, processors and networks."""
import collections
import ipaddress


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


def networks_of(facts):
    """By interface, the network that it is in."""
    return {entry["name"]: ipaddress.ip_interface(f"{entry['address']}/{entry['mask']}").network
            for entry in facts["interfaces"] if entry["address"] and entry["up"] and not entry["address"].startswith("127.")}
