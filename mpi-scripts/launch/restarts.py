# SPDX-License-Identifier: Apache-2.0
"""Starts a run again after it has failed: without hosts that fail again and again, and not if that leads nowhere."""
import collections
import time

from launch.job import say

SUCCESS, USAGE, STOPPED, NOT_SAVED, NOT_STARTED = 0, 2, 3, 5, 127  # exit codes after which another start makes no sense
CRASH_LOOP = 3  # starts that end alike without a new checkpoint
FAILURES_OF_A_HOST = 2
LONGEST_PAUSE = 30  # seconds
SHORT = 60  # seconds: a program that saves no checkpoint has come no further if it ends sooner


class Restarts:
    """Counts what has happened, and decides whether and where to start again."""

    def __init__(self, limit, min_ranks):
        self.limit, self.min_ranks = limit, min_ranks
        self.starts = 0
        self.alike = 0  # starts in a row that ended alike, without progress
        self.last = None
        self.failures = collections.Counter()  # by host
        self.left_out = []

    def note(self, outcome, progress, seconds):
        """Notes the end of a start. @param progress  names of checkpoints; None if there are none to see"""
        kind = (outcome.cause.kind() if outcome.cause else "", outcome.code, tuple(progress or ()))
        self.alike = self.alike + 1 if kind == self.last and (progress is not None or seconds < SHORT) else 1
        self.last = kind
        self.starts += 1

    def blame(self, host, times=1):
        self.failures[host] += times

    def to_leave_out(self, hosts):
        """The hosts among these that have failed too often, if others are left."""
        found = [host for host in hosts if self.failures[host] >= FAILURES_OF_A_HOST and host not in self.left_out]
        return found if len(found) + len(self.left_out) < len(hosts) else []

    def why_not_again(self, outcome, is_train):
        """Why there is no further start; empty if there is one, and None if nothing need be said."""
        if outcome.was_told_to_end or outcome.code in (SUCCESS, USAGE, NOT_STARTED) or (is_train and outcome.code == STOPPED):
            return None
        if not outcome.was_started and not outcome.bad_hosts:  # the checks have said why
            return None
        if is_train and outcome.code == NOT_SAVED:
            return f"train has ended without saving its final state (exit code {NOT_SAVED}), so it is not started again"
        text = outcome.cause.text if outcome.cause else f"it ended with exit code {outcome.code}"
        if self.alike >= CRASH_LOOP:
            return f"{text}. {self.alike} starts in a row ended like this, without a new checkpoint, so the run is not started again"
        if self.starts > self.limit:
            return f"{text}. This was start {self.starts}, and --max_restart {self.limit} allows no further one" if self.limit else None
        return ""

    def pause(self):
        seconds = min(LONGEST_PAUSE, 2 ** (self.alike - 1) - 0.5)
        say(f"restart {self.starts} of {self.limit} in {seconds:g} s" + (f", without {', '.join(self.left_out)}" if self.left_out else ""))
        time.sleep(seconds)


def supervise(run, limit, min_ranks):
    """Runs until success, or until another start makes no sense.

    @param run  start(left_out, number) returns an Outcome; hosts and ranks(left_out) describe it; listed(name) is the name by
                which a host was listed; progress() lists checkpoints; is_train
    @return the exit code"""
    restarts = Restarts(limit, min_ranks)
    while True:
        begin = time.monotonic()
        outcome = run.start(restarts.left_out, restarts.starts)
        restarts.note(outcome, run.progress(), time.monotonic() - begin)
        why = restarts.why_not_again(outcome, run.is_train)
        if why != "":
            if why and limit:
                say(why)
            return outcome.code
        for host in outcome.bad_hosts:  # they cannot even be reached
            restarts.blame(host, FAILURES_OF_A_HOST)
        is_everywhere = outcome.cause and outcome.cause.count() >= run.ranks(restarts.left_out)  # then no host is to blame
        if outcome.cause and outcome.cause.host and not outcome.bad_hosts and not is_everywhere:
            restarts.blame(run.listed(outcome.cause.host))
        dropped = restarts.to_leave_out(run.hosts)
        if dropped:
            restarts.left_out += dropped
            count = run.ranks(restarts.left_out)
            say(f"{', '.join(dropped)} failed {FAILURES_OF_A_HOST} times or cannot be reached, and is left out: "
                f"{count} rank{' trains' if count == 1 else 's train'} on, with the same global batch")
        if run.ranks(restarts.left_out) < min_ranks:
            say(f"{run.ranks(restarts.left_out)} ranks are left, and --min_ranks asks for {min_ranks}")
            return outcome.code
        restarts.pause()
