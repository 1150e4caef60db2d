#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the answers to other programs' options are true: foreign_options_test.py ROOT TRAIN

What an answer names must exist, and what it denies must not. The table is apps/train/options/foreign_options.txt."""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT, TRAIN = map(pathlib.Path, sys.argv[1:3])
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "mpi-scripts"))
from launch import options  # noqa: E402  pylint: disable=wrong-import-position

LAUNCHER = options.VALUES | options.FLAGS


def help_of(*command):
    return subprocess.run([*map(str, command), "--help"], capture_output=True, text=True, check=True, timeout=60).stdout


def named_in(text):
    return {name.replace("_", "-") for name in re.findall(r"(?<![\w-])--?([A-Za-z][\w-]*)", text)}


TRAIN_HELP, LAUNCHER_HELP = help_of(TRAIN), help_of(ROOT / "mpi-scripts/launch.sh")
OWN = {line.split()[0][2:] for line in TRAIN_HELP.splitlines() if line.startswith("  --")}


def rows():
    """Pairs of an answer, or the option that stands for it, and the spellings, those of the launcher's among them."""
    found = []
    for line in (ROOT / "apps/train/options/foreign_options.txt").read_text().splitlines():
        if line.startswith(("! ", "~ ")):
            found.append((line[2:], []))
        elif re.match(r"[a-z]", line):
            name, _, rest = line.partition(" = ")
            found.append((f"--{name}", rest.split(";")[0].split()))
        elif line.startswith("  "):
            found[-1][1].extend(word for word in line.split() if not word.startswith("@"))
    return found


def of_programs(answer):
    """Parts of an answer with the program that each is about: train, but for what follows another program's name in a clause."""
    for clause in re.split(r"[;.] ", answer):
        parts = re.split(r"\b(mpirun|comm-bench|lockstep-launch|train)(?= --?\w)", clause)
        yield "train", parts[0]
        yield from zip(parts[1::2], parts[2::2])


def nearly_same(spelling, option):
    """Whether one word is a form of the other: label-smooth and label-smoothing, but not loss and loss-scale."""
    short, long = sorted((spelling, option), key=len)
    return len(short) > 5 and long.startswith(short) and long[len(short):][:1] not in ("-", ".", "")


class Answers(unittest.TestCase):
    def test_the_table_is_read(self):
        self.assertGreater(len(rows()), 80)
        self.assertGreater(sum(len(spellings) for _, spellings in rows()), 600)
        self.assertIn("label-smoothing", OWN)
        self.assertEqual(LAUNCHER["nproc-per-node"], "per_host")

    def test_what_an_answer_names_exists(self):
        there = {"train": OWN | {"c", "o"}, "lockstep-launch": LAUNCHER.keys(), "comm-bench": named_in(help_of(TRAIN.with_name("comm-bench"))),
                 "mpirun": {"np", "n", "H", "mca", "bind-to"}}
        for answer, _ in rows():
            for program, text in of_programs(answer):
                for name in named_in(text):
                    self.assertIn(name, there[program], f"'{answer}' names an option that {program} lacks")

    def test_no_own_option_is_answered_as_another_programs(self):
        for answer, spellings in rows():
            for spelling in spellings:
                self.assertNotIn(spelling, OWN, f"train has --{spelling} now, but the table says: {answer}")

    def test_what_resembles_an_own_option_is_answered_by_it(self):
        for answer, spellings in rows():
            for spelling in spellings:
                near = {option for option in OWN if nearly_same(spelling, option)}
                self.assertTrue(not near or near & named_in(answer), f"--{spelling} is nearly {near}, which the answer does not name: {answer}")

    def test_an_option_of_the_launcher_is_answered_by_naming_the_launcher(self):
        for answer, spellings in rows():
            for spelling in spellings:
                if LAUNCHER.get(spelling.lstrip("-")):
                    self.assertIn("lockstep-launch", answer, spelling)

    def test_what_an_answer_denies_is_in_no_help(self):
        texts = (TRAIN_HELP + LAUNCHER_HELP + (ROOT / "docs/launch.md").read_text()).lower()
        denied = [phrase.lower() for answer, _ in rows()
                  for rest in re.findall(r"\b(?:lockstep|train) (?:has|writes|opens|runs|reads|makes|downloads) no ([^;:]*)", answer)
                  for phrase in re.split(r", (?:no )?| and (?:no )?| or (?:no )?| by | yet", rest) if phrase]
        self.assertGreater(len(denied), 9)
        for phrase in denied:
            self.assertIsNone(re.search(rf"\b{re.escape(phrase)}\b", texts), f"an answer denies '{phrase}', which a help text mentions")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
