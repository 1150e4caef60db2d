# SPDX-License-Identifier: Apache-2.0
"""How a run of train goes on after a failure: its folder, its last checkpoint, and the options that continue from there."""
import os

from launch import agents
from launch.reader import read, value_of

FREE = 'd=$1; n=2; while [ -e "$d" ]; do d=$1-$n; n=$((n + 1)); done; echo "$d"'  # as train names folders
# Without an own name for the folder, train numbers its runs here.
DEFAULT = "runs/train"


def without(words, *options):
    """The words without these options and their values."""
    kept = []
    words = list(words)
    while words:
        word = words.pop(0)
        name = word.partition("=")[0].replace("_", "-")
        if name not in options:
            kept.append(word)
        elif "=" not in word and words and not words[0].startswith("--"):
            words.pop(0)
    return kept


class Run:
    """A run of train that may be started several times. Its files are on the host of rank 0."""

    def __init__(self, command, host):
        """@param command  the program and its arguments"""
        found = read(command[0], tuple(command[1:]))
        self.arguments, self.host = found.words if found else command[1:], host
        self.resumes = value_of(command, "--resume")  # "" is last
        folder = value_of(command, "--save-dir")
        self.saves, self.is_named = folder != "none", folder is not None
        self.folder = os.path.abspath(folder or DEFAULT)
        self.continues = self.resumes in ("", "last", "best", "auto")  # in the folder itself
        self.path = None if not self.continues else self.folder

    def written(self):
        """The folder in which a run makes its own or goes on, "" if it saves nothing; and whether the user named it."""
        if not self.saves:
            return "", False
        return self.folder if self.continues else os.path.dirname(self.folder), self.is_named

    def checkpoints(self):
        """The names of the checkpoints; they change where a run has come further."""
        listed = agents.run_on(self.host, ["ls", "-1", os.path.join(self.path, "checkpoints")]) if self.path else None
        return sorted(name for name in (listed or "").split("\n") if name.startswith("step-"))

    def words(self, is_restart):
        """The arguments of the next start."""
        if not self.saves:
            return self.arguments
        if is_restart and self.checkpoints():
            return [*without(self.arguments, "--resume", "--save-dir"), "--save-dir", self.path, "--resume", "auto"]
        if self.continues:
            return self.arguments
        free = agents.run_on(self.host, ["sh", "-c", FREE, "sh", self.folder])
        self.path = free.strip() if free else self.folder
        return [*without(self.arguments, "--save-dir"), "--save-dir", self.path]
