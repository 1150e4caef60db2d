#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shown_code.py finds code that is shown and not tested."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("shown_code.py")
EXAMPLE = """int main() {
  // README: begin
  first();
  // README: end
  check();
  // README: begin
  last();
  // README: end
  // guide mpi: begin
  other();
  // guide mpi: end
}
"""
SHOWN = "<!-- example: examples/a.cpp -->\n```cpp\nfirst();\nlast();\n```\n"
OTHER = "<!-- example: examples/a.cpp mpi -->\n```cpp\nother();\n```\n"


class ShownCode(unittest.TestCase):
    def run_on(self, readme, guide="", *options):
        """Exit code and output of the script for a repository with these documents."""
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / "examples").mkdir()
            (root / "docs" / "guides").mkdir(parents=True)
            (root / "examples" / "a.cpp").write_text(EXAMPLE)
            (root / "b.cpp").write_text(EXAMPLE)
            (root / "README.md").write_text(readme)
            (root / "docs" / "guides" / "a.md").write_text(guide)
            result = subprocess.run([sys.executable, SCRIPT, *options, root], capture_output=True, text=True)
            self.readme = (root / "README.md").read_text()
            return result.returncode, result.stdout + result.stderr

    def refused(self, why, readme, guide=""):
        code, output = self.run_on(readme, guide)
        self.assertEqual(code, 1)
        self.assertIn(why, output)

    def test_what_examples_have_passes(self):
        code, output = self.run_on(f"# a\n\n{SHOWN}\ntext\n", OTHER)
        self.assertEqual((code, output), (0, "2 blocks of C++ in 2 documents are what their examples have\n"))

    def test_other_code_is_refused_and_named(self):
        self.refused("README.md:2: this is not what examples/a.cpp has", SHOWN.replace("last", "lost"))
        self.refused("docs/guides/a.md:2: this is not what", SHOWN, OTHER.replace("other();", "other(1);"))
        self.refused("this is not what", SHOWN.replace("last();\n", ""))

    def test_code_without_a_source_is_refused(self):
        no_source = "has no '<!-- example:"
        self.refused(no_source, SHOWN + "\n```cpp\nfirst();\n```\n")
        self.refused(no_source, SHOWN, "1. an item\n   ```cpp\n   first();\n   ```\n")
        self.refused(no_source, SHOWN, "text\n```c++\nfirst();\n```\n")
        self.refused("shows no C++", "# a\n")

    def test_a_source_that_is_not_run_is_refused(self):
        self.refused("there is no examples/c.cpp", SHOWN.replace("a.cpp", "c.cpp"))
        self.refused("does not lie in examples/", SHOWN.replace("examples/a.cpp", "b.cpp"))
        self.refused("marks nothing by '// guide more: begin'", SHOWN, OTHER.replace("mpi", "more"))

    def test_code_is_written_if_asked_for(self):
        self.assertEqual(self.run_on(SHOWN.replace("last", "lost") + "end\n", "", "--write")[0], 0)
        self.assertEqual(self.readme, SHOWN + "end\n")

    def test_code_is_written_into_empty_blocks_and_no_others(self):
        empty = SHOWN.replace("first();\nlast();\n", "")
        self.assertEqual(self.run_on(empty + OTHER + OTHER.replace("other();\n", ""), "", "--write")[0], 0)
        self.assertEqual(self.readme, SHOWN + OTHER + OTHER)


if __name__ == "__main__":
    unittest.main()
