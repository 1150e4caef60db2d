#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compile_fail.py finds what compiles, what is refused in other words, and twins that do not compile:
compile_fail_test.py COMPILER [OPTION...]"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("compile_fail.py")
COMMAND = sys.argv[1:]
HEADER = """#pragma once
#include <vector>
namespace lockstep {
struct World {}; struct ProcessGroup {}; struct Communicator {}; struct Checkpoint {}; struct DataParallel {};
void take(int);
void take(bool) = delete;  // Pass a number.
}
"""
CASE = "[one]\nsays: Pass a number\nnot: take(true);\nbut: take(1);\n"


class CompileFail(unittest.TestCase):
    def run_on(self, cases):
        """Exit code and output of the script for these cases."""
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for path, text in {"include/lockstep/lockstep.hpp": HEADER, "tests/compile_fail/cases.txt": cases}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            result = subprocess.run([sys.executable, SCRIPT, root, *COMMAND], capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr

    def test_cases_that_hold(self):
        code, output = self.run_on(CASE + CASE.replace("one", "two"))
        self.assertEqual((code, output[:17]), (0, "2 cases are refus"), output)

    def test_faults(self):
        for change, fault in [(("take(true)", "take(2)"), "one compiles: take(2);"), (("a number", "an int"), "one is refused without"),
                              (("take(1)", "take(false)"), "the twin of one does not compile"),
                              (("but: take(1);\n", ""), "lacks one of the lines"), ((CASE, ""), "0 cases")]:
            code, output = self.run_on(CASE.replace(*change))
            self.assertEqual(code, 1, output)
            self.assertIn(fault, output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
