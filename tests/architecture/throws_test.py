#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""throws.py finds promises of public headers that no test shows."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("throws.py")
HEADER = """#pragma once
namespace lockstep {
/// Holds numbers. @throws Error{transport} in every call
class Box {
 public:
  /// Adds one. @return the sum
  /// @throws Error{invalid_argument} if it is negative; std::bad_alloc
  /// @cost one addition
  template <typename T>
  requires(!std::is_const_v<T> && sizeof(T) <= 8) Box& add(const std::map<T, int>& numbers) { return *this; }
  /// @throws as add
  std::function<int(int)> make = {};
  struct Lid {
    /// @throws Error{io | corrupt} with the file
    void open(std::string_view name = "{;}");
    /// @throws Error{io | corrupt} with the file
    void open(int number);
  };
};
/// Makes one. @throws what Box throws
Box make_box();
}  // namespace lockstep
"""
TESTS = "TEST(Box, Refuses) { EXPECT_EQ(code_of(f), ErrorCode::invalid_argument); }\nTEST_F(BoxTest, Opens) {}\n"
TABLE = """# a comment
Box
  Error{transport} in every call
    because: nothing is sent in this example
Box::add
  Error{invalid_argument} if it is negative
    base/Box.Refuses
  std::bad_alloc
    base/Box.Refuses
    box_test.py: memory is full
Box::make
  as add
    base/BoxTest.Opens
Box::Lid::open (2 overloads)
  Error{io | corrupt} with the file
    lid.sh: cannot open
make_box
  what Box throws
    base/Box.Refuses
"""


class Throws(unittest.TestCase):
    def run_on(self, table=TABLE, header=HEADER, *options):
        """Exit code and output of the script for a repository with these files."""
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for path, text in {"include/lockstep/base/box.hpp": header, "tests/base/box_test.cpp": TESTS,
                               "tests/base/box_test.py": "memory is full", "mpi-scripts/check/lid.sh": "io: cannot open",
                               "tests/architecture/throws.txt": table}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            result = subprocess.run([sys.executable, SCRIPT, *options, root], capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr

    def expect_fault(self, words, table=TABLE, header=HEADER):
        code, output = self.run_on(table, header)
        self.assertEqual(code, 1, output)
        self.assertIn(words, output)

    def test_a_table_that_shows_everything_passes(self):
        self.assertEqual(self.run_on(), (0, "6 promises of the public headers, 1 of them with a reason instead of a test\n"))

    def test_the_empty_table_has_every_promise(self):
        _, listed = self.run_on(TABLE, HEADER, "--list")
        self.assertEqual(listed, "".join(line + "\n" for line in TABLE.splitlines()
                                         if not line.startswith("    ") and not line.startswith("#")))

    def test_a_promise_without_a_row(self):
        self.expect_fault("no row for Box::add: std::bad_alloc", TABLE.replace("  std::bad_alloc\n    base/Box.Refuses\n", ""))
        self.expect_fault("no row for Box::Lid::open (3 overloads)",
                          header=HEADER.replace("    void open(int number);", """    void open(int number);
    /// @throws Error{io | corrupt} with the file
    void open(double number);"""))

    def test_a_row_without_a_promise(self):
        self.expect_fault("no public header says (any more): Box::make: as add", header=HEADER.replace("  /// @throws as add\n", ""))
        self.expect_fault("no row for Box::make: as add and more", header=HEADER.replace("@throws as add", "@throws as add and more"))
        self.expect_fault("two rows for make_box", TABLE + "make_box\n  what Box throws\n    base/Box.Refuses\n")

    def test_a_place_that_is_not_there(self):
        self.expect_fault("there is no test base/Box.Accepts", TABLE.replace("Box.Refuses", "Box.Accepts"))
        self.expect_fault("there is no test nn/Box.Refuses", TABLE.replace("base/Box.Refuses", "nn/Box.Refuses"))
        self.expect_fault("there is no file lids.sh", TABLE.replace("lid.sh", "lids.sh"))
        self.expect_fault("lid.sh has no 'can open'", TABLE.replace("cannot open", "can open"))
        self.expect_fault("nothing shows: make_box", TABLE.removesuffix("    base/Box.Refuses\n"))

    def test_a_test_that_does_not_look_at_the_error(self):
        self.expect_fault("never mentions transport",
                          TABLE.replace("because: nothing is sent in this example", "base/Box.Refuses"))
        self.expect_fault("never mentions invalid_argument", TABLE.replace("base/Box.Refuses", "box_test.py: memory is full", 1))
        self.expect_fault("never mentions corrupt or io", TABLE.replace("lid.sh: cannot open", "base/BoxTest.Opens"))

    def test_a_reason_that_is_none(self):
        self.expect_fault("gives no reason", TABLE.replace(" nothing is sent in this example", ""))


if __name__ == "__main__":
    unittest.main()
