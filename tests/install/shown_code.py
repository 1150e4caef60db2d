#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the code that README.md and docs/guides/*.md show to the examples that CTest builds against an install and runs.

    shown_code.py [--write] [ROOT]

Above each block of C++ a comment names its source: `<!-- example: examples/some.cpp -->` stands for what that file has
between "// README: begin" and "// README: end", and `<!-- example: examples/some.cpp NAME -->` for what it has between
"// guide NAME: begin" and "// guide NAME: end". Where a file has several such regions of one name, they are shown
together: what lies between them is left out. --write replaces blocks by what their sources have.
"""
import argparse
import pathlib
import re
import sys
import textwrap

BLOCK = re.compile(r"^(?P<above>[^\n]*)\n(?P<fence> *```(?:cpp|c\+\+|cxx|c)(?![a-z])[^\n]*\n)(?P<code>.*?)^ *```$", re.M | re.S)
SOURCE = re.compile(r"<!-- example: (?P<path>\S+\.(?:cpp|c))(?: (?P<name>[\w-]+))? -->")
LONGEST = 20  # unit: lines of one block


class Fault(Exception):
    """A block that is not what it should be."""


def shown(root, path, name):
    """What an example marks for a document."""
    mark = f"guide {name}" if name else "README"
    file = root / path
    if not file.is_file():
        raise Fault(f"there is no {path}")
    if file.parent not in (root / "examples", root / "examples/c"):
        raise Fault(f"{path} is no example that CTest builds and runs: it does not lie in examples/")
    regions = re.findall(rf"^ *(?://|/\*) {mark}: begin(?: \*/)?\n(.*?)^ *(?://|/\*) {mark}: end(?: \*/)?\n", file.read_text(), re.M | re.S)
    if not regions:
        raise Fault(f"{path} marks nothing by '// {mark}: begin' and '// {mark}: end'")
    code = textwrap.dedent("".join(regions))
    if code.count("\n") > LONGEST:
        raise Fault(f"{path} marks {code.count(chr(10))} lines for {mark}, more than {LONGEST}")
    return code


def hold(root, document, write):
    """Yields what is wrong with the blocks of one document, and mends what can be mended if told so."""
    text = "\n" + document.read_text()
    mended = text
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("fence"))
        where = f"{document.relative_to(root)}:{line}"
        source = SOURCE.fullmatch(block["above"].strip())
        try:
            if not source:
                raise Fault("a block of C++ has no '<!-- example: examples/some.cpp -->' in the line above it")
            code = shown(root, source["path"], source["name"])
        except Fault as fault:
            yield f"{where}: {fault}"
            continue
        if code == block["code"]:
            continue
        if write:
            head, tail = (slice(0, block.start("code") - block.start()), slice(block.end("code") - block.start(), None))
            mended = mended.replace(block[0], block[0][head] + code + block[0][tail])
        else:
            yield f"{where}: this is not what {source['path']} has; shown_code.py --write replaces it by\n{code}"
    if mended != text:
        document.write_text(mended[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace blocks by what their sources have")
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    documents = [root / "README.md", *sorted((root / "docs" / "guides").glob("*.md"))]
    faults = [fault for document in documents for fault in hold(root, document, arguments.write)]
    blocks = sum(len(BLOCK.findall("\n" + document.read_text())) for document in documents)
    if blocks == 0:
        faults.append("README.md shows no C++")
    print("\n".join(faults) or f"{blocks} blocks of C++ in {len(documents)} documents are what their examples have")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
