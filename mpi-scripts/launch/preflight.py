# SPDX-License-Identifier: Apache-2.0
"""Checks the hosts of a run before it starts: asks all of them at once, compares what they say, and measures links and speeds."""
import json
import os
import pathlib
import re
import secrets
import selectors
import signal
import subprocess
import sys
import time

from launch import agents, checks
from launch.options import UsageError
from launch.printable import printable

SECONDS_FOR_FACTS = 3  # for what may block on a host, such as a file system; a sound host answers within one
SECONDS_PER_LINK = 0.05
PROBE = b"".join(pathlib.Path(__file__).with_name(name).read_bytes() for name in ("probe_links.py", "probe.py"))
START = "import sys;exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))"


def patience():
    """For how many seconds hosts are waited for that answer late for another reason, such as many others' work on them."""
    text = os.environ.get("LOCKSTEP_PREFLIGHT_SECONDS", "8")
    if not re.fullmatch(r"\d{1,6}(\.\d*)?|\.\d+", text, re.ASCII):
        raise UsageError(f"LOCKSTEP_PREFLIGHT_SECONDS={text}: give a number of seconds above 0")
    return float(text)


class Asked:
    """The probe on one host."""

    def __init__(self, host, request):
        self.host, self.lines, self.rest, self.errors = host, {}, b"", b""
        python = [sys.executable, "-IS"] if agents.is_here(host) else ["python3", "-IS"]
        self.job = subprocess.Popen(agents.command_on(host, [*python, "-c", START]), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, start_new_session=True)
        self.tell(b"%d\n%b%b\n" % (len(PROBE), PROBE, json.dumps(request).encode()))

    def tell(self, data):
        self.sent = time.time()
        try:
            self.job.stdin.write(data)
            self.job.stdin.flush()
        except OSError:  # its end and its messages say more
            pass

    def take(self, stream):
        """Reads what has come. @return whether the stream goes on"""
        data = os.read(stream.fileno(), 65536)
        if stream is self.job.stderr:
            self.errors += data
            return bool(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            begin = line.find(b"lockstep-probe {")
            if begin >= 0:
                values = json.loads(line[begin + 15:])
                self.lines[values["kind"]] = dict(values, sent=self.sent, read=time.time())
        return bool(data)

    def end(self):
        try:
            os.killpg(self.job.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.job.wait()
        for stream in (self.job.stdin, self.job.stdout, self.job.stderr):
            try:
                stream.close()
            except OSError:
                pass


def wait_for(probes, kind, deadline):
    """Reads until each probe has said something of this kind, or has ended."""
    selector = selectors.DefaultSelector()
    for probe in probes:
        for stream in (probe.job.stdout, probe.job.stderr):
            selector.register(stream, selectors.EVENT_READ, probe)
    waiting = set(probes)
    while waiting and time.monotonic() < deadline:
        for key, _ in selector.select(max(0, deadline - time.monotonic())):
            if not key.data.take(key.fileobj):
                selector.unregister(key.fileobj)
                open_streams = {other.data for other in selector.get_map().values()}
                if key.data not in open_streams:
                    waiting.discard(key.data)
            if kind in key.data.lines:
                waiting.discard(key.data)
    selector.close()


def address_among(facts, host, ifname):
    """The address at which other hosts should reach this one."""
    found = {entry["name"]: entry["address"] for entry in facts["interfaces"] if entry["address"] and entry["up"]}
    if ifname:
        return found.get(ifname, "")
    wanted = agents.address_of(host)
    if wanted in found.values() and not wanted.startswith("127."):
        return wanted
    return next((address for name, address in found.items() if name != "lo"), wanted)


def ask(hosts, request, ifname):
    """@return by host, the facts (with "measurements" and "clock") or {"unreachable": what the agent said}"""
    deadline = time.monotonic() + patience()
    request = dict(request, token=secrets.token_hex(16), seconds=SECONDS_FOR_FACTS, link_seconds=SECONDS_PER_LINK)
    probes = [Asked(host, request) for host in hosts]
    try:
        wait_for(probes, "facts", deadline)
        answered = [probe for probe in probes if "facts" in probe.lines]
        places = {probe.host: address_among(probe.lines["facts"], probe.host, ifname) for probe in answered}
        for number, probe in enumerate(answered):
            to = answered[(number + 1) % len(answered)]
            plan = {"peers": {host: address for host, address in places.items() if host != probe.host and address}}
            if to is not probe and places[to.host]:
                plan["to"] = {"address": places[to.host], "port": to.lines["facts"]["port"]}
            probe.tell(json.dumps(plan).encode() + b"\n")
        wait_for(answered, "measurements", max(deadline, time.monotonic() + 4))
    finally:
        for probe in probes:
            probe.end()
    answers = {}
    for number, probe in enumerate(answered):
        peer = answered[(number + 1) % len(answered)].host
        answers[probe.host] = dict(probe.lines["facts"], measurements=probe.lines.get("measurements", {}), address=places[probe.host],
                                   clock=probe.lines.get("clock"), peer=peer)
    for probe in probes:
        if probe.host not in answers:
            answers[probe.host] = {"unreachable": probe.errors.decode(errors="replace").strip(), "code": probe.job.returncode}
    return answers


def row_of(host, facts, plan):
    if "unreachable" in facts:
        return [host, "-", str(plan.ranks[host]), "-", "does not answer"]
    measured = facts["measurements"]
    link = measured.get("link", {})
    program = facts["program"]
    data = [facts["data " + path] for path in plan.data]
    free = facts["shm"].get("free")
    return [host, facts["address"], str(plan.ranks[host]), str(len(facts["limits"]["cpus"])),
            f"{measured['speed'] / 1e6:.0f} M/s" if "speed" in measured else "-",
            f"{link['bytes_per_second'] / 1e6:.0f} MB/s, {link['round_trip'] * 1e6:.0f} us" if "round_trip" in link else "-",
            program.get("id", "-")[:8], ",".join(found.get("hash", "-")[:8] for found in data) or "-",
            f"{free >> 20} MiB" if free is not None else "-", str(len(facts["gpus"].get("gpus", []))) if plan.gpus else "-"]


def table(answers, plan):
    rows = [["host", "address", "ranks", "processors", "loop", "link to the next", "build id", "data", "/dev/shm", "GPUs"]]
    rows += [row_of(host, answers[host], plan) for host in plan.hosts]
    widths = [max(len(row[column]) for row in rows if column < len(row)) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


class Report:
    """What the checks found; it prints itself."""

    def __init__(self, answers, plan, seconds):
        self.answers, self.plan, self.seconds = answers, plan, seconds
        self.findings = checks.all_findings(answers, plan)

    @property
    def failures(self):
        return [finding for finding in self.findings if finding.fails]

    def bad_hosts(self):
        """Hosts that fail a check of their own."""
        return sorted({finding.host for finding in self.failures if finding.host in self.plan.ranks}, key=self.plan.hosts.index)

    def print(self, name, with_table):
        if with_table:
            print(printable(table(self.answers, self.plan)))
        hosts_of = {}
        for finding in self.findings:
            hosts_of.setdefault((finding.fails, finding.what), []).append(finding.host)
        for finding in self.findings:
            hosts = hosts_of[finding.fails, finding.what]
            if finding.host == hosts[0]:
                print(f"{name}: {finding.text(hosts)}", file=sys.stderr)
        warnings = len(self.findings) - len(self.failures)
        verdict = f"{len(self.failures)} failed" if self.failures else "passed" + (f", {warnings} to look at" if warnings else "")
        number = f"{len(self.plan.hosts)} host" + ("s" if len(self.plan.hosts) > 1 else "")
        print(f"{name}: checks of {number} in {self.seconds:.1f} s: {verdict}", file=sys.stderr)


def check(plan):
    """Checks the hosts of a plan. @param plan  a plan.Plan"""
    begin = time.monotonic()
    request = {"program": plan.program, "daemon": plan.daemon, "folder": os.getcwd(), "variables": plan.variables,
               "data": plan.data, "writable": [path for path in (*plan.writable, plan.saves) if path], "gpus": bool(plan.gpus),
               "port": plan.port, "ranks": max(plan.ranks.values())}
    named = [host for host in plan.hosts if agents.address_of(host) or agents.agent() is not agents.SSH]
    answers = ask(named, request, plan.ifname)
    for host in plan.hosts:
        if host not in answers:
            answers[host] = {"unreachable": "Could not resolve hostname", "code": 255}
    return Report(answers, plan, time.monotonic() - begin)
