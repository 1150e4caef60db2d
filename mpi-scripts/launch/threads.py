# SPDX-License-Identifier: Apache-2.0
"""Chooses the number of compute threads of each rank, and how they wait, where nobody has said it."""
import os

from launch import cluster


def on_this_host(ranks):
    return {"this host": (ranks, len(os.sched_getaffinity(0)))}


def on_hosts(answers, placed):
    """Ranks and processors of each machine; containers and namespaces of one machine share both."""
    found = {}
    for hosts in cluster.machines(answers):
        name = " and ".join(hosts) + (" (one machine)" if len(hosts) > 1 else "")
        found[name] = (sum(placed[host] for host in hosts), cluster.processors(answers, hosts))
    return found


def choose(places, shares_a_machine):
    """@param places  ranks and processors by name
    @return variables to set, and a line that says why"""
    if not places:
        return {}, ""
    threads = min(max(1, processors // ranks) for ranks, processors in places.values())
    chosen = {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(threads)}
    asked = os.environ.get("OMP_NUM_THREADS", str(threads)).split(",")[0]
    crowded = shares_a_machine or any(ranks * int(asked) > processors for ranks, processors in places.values() if asked.isdecimal())
    if crowded and "OMP_WAIT_POLICY" not in os.environ:
        chosen["OMP_WAIT_POLICY"] = "passive"
    where = "; ".join(f"{ranks} ranks and {processors} processors on {name}" for name, (ranks, processors) in places.items())
    text = ", ".join(f"{name}={value}" for name, value in chosen.items())
    return chosen, f"{text}, for {where}" if text and (len(places) > 1 or crowded) else ""
