# SPDX-License-Identifier: Apache-2.0
"""Finds out why a run has ended, from the lines of its ranks and of the MPI launcher."""
import dataclasses
import re
import signal

PATTERNS = (  # of MPI launchers and srun: the end of a rank, or of the launcher's daemon on a host
    re.compile(r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on\s+signal (?P<signal>\d+)"),
    re.compile(r"PID \d+ RUNNING AT (?P<host>\S+)\s*\n=\s+EXIT CODE: (?P<signal>\d+)\n(?:=.*\n)*"
               r"YOUR APPLICATION TERMINATED WITH THE EXIT STRING: .*signal"),
    re.compile(r"error: (?P<host>\S+): task (?P<rank>\d+): (?P<word>Killed|Segmentation fault|Aborted|Terminated|Bus error)"),
    re.compile(r"Remote daemon: *\S+ on node (?P<lost>\S+)"),
    re.compile(r"Process name: *\[\[\d+,\d+\],(?P<rank>\d+)\]\s+Exit code: *(?P<code>\d+)"))
OWN_LINE = re.compile(r"[^:\s]+: rank (?P<rank>\d+) on (?P<host>[^:\s]+): ")
PEERS = re.compile(r"peer ranks? ([\d ]+)\b")
AT_FAULT = re.compile(r"[(,] ?(?:peer|on) ranks? (\d[\d ]*)[,)]")  # the ranks that have the same error, if the speaker is among them


@dataclasses.dataclass
class Cause:
    text: str
    rank: str = ""
    host: str = ""
    line: str = ""  # of the program, if one says it

    def count(self):
        """How many ranks have failed alike."""
        found = AT_FAULT.search(self.line)
        ranks = set(found.group(1).split()) if found else set()
        return len(ranks) if self.rank in ranks else 1

    def kind(self):
        """The text without what differs from one start to the next: the same for the same failure."""
        return re.sub(r"\d+", "N", re.sub(r"rank \d+ on \S+?:? ", "", self.text))


def signal_name(text):
    try:
        return signal.Signals(int(text)).name
    except ValueError:
        return f"signal {text}"


def of_launcher(text):
    for pattern in PATTERNS:
        found = pattern.search(text)
        if not found:
            continue
        values = {"rank": "", "host": "", **found.groupdict()}
        who = " ".join(filter(None, (f"rank {values['rank']}" if values["rank"] else "a rank", f"on {values['host']}" if values["host"] else "")))
        if "lost" in values:
            return Cause(f"host {values['lost']} has left the run: its MPI daemon does not answer", host=values["lost"])
        if "code" in values:
            return Cause(f"{who} ended with exit code {values['code']}", values["rank"])
        how = signal_name(values["signal"]) if "signal" in values else values["word"]
        return Cause(f"{who} was ended by {how}", values["rank"], values["host"])
    return None


def of_program(lines):
    """The first line whose rank does not name another one that has a line, too; else the last line without a rank."""
    lines = [line for line in lines if line.partition(": ")[2].partition(": ")[0] not in ("note", "warning")]
    own = [(found, line) for line in lines for found in [OWN_LINE.match(line)] if found]
    speakers = {found.group("rank") for found, _ in own}
    for found, line in own:
        peers = {peer for list_of in PEERS.findall(line) for peer in list_of.split()} - {found.group("rank")}
        if not peers & speakers or len(own) == 1:
            return Cause(line.partition(": ")[2], found.group("rank"), found.group("host"), line)
    if own:
        return Cause(own[0][1].partition(": ")[2], own[0][0].group("rank"), own[0][0].group("host"), own[0][1])
    return Cause(lines[-1].partition(": ")[2], line=lines[-1]) if lines else None


def find(lines, launcher_text):
    """@param lines  of the program about itself, in the order in which they came"""
    said, ended = of_program(lines), of_launcher(launcher_text)
    # A rank that a signal has ended could not say so itself, and the others only miss it.
    by_signal = ended is not None and "ended by" in ended.text and ended.rank
    if by_signal and not any(re.match(rf"[^:\s]+: rank {ended.rank} on ", line) for line in lines):
        return ended
    return said or ended
