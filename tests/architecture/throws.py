#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the table throws.txt to the public headers: every @throws is shown by a test, or says why none can show it.

    throws.py [--list] [ROOT]

A promise is one clause of a @throws, up to the next semicolon. The table has a row for each:

    Layout::find
      Error{invalid_argument} if there is no tensor of that name
        base/Layout.RefusesWhatCannotBe

First the function with its class, then the clause, then where the error is shown, one place a line:

    FOLDER/Suite.Case     a test of GoogleTest in tests/FOLDER, or in a folder of it
    FILE: WORDS           these words in a file that is no test of GoogleTest, such as a script
    because: WORDS        why no test can show it

Overloads with the same clause share a row, which then says how many there are: "MetricsFile::write (8 overloads)". A test
must mention the errors of its clause in its file, or in a header of its folder. --list prints all promises as an empty
table.
"""
import argparse
import collections
import pathlib
import re
import sys

END_OF_PROMISE = re.compile(r"@(?:throws|cost|param|return|pre|source|see)\b")
GOOGLE_TEST = re.compile(r"\b(?:TYPED_)?TEST(?:_F|_P)?\((\w+),\s*(\w+)\)")
CODE = re.compile(r"Error\{([^}]*)\}")


def without(text, opening, closing):
    """The text without what stands between such brackets, nested ones included."""
    kept, depth = [], 0
    for character in text:
        if character == opening:
            depth += 1
        elif character == closing and depth > 0:
            depth -= 1
        elif depth == 0:
            kept.append(character)
    return "".join(kept)


def declared_name(declaration):
    """The name of the class, function or variable that a declaration begins with."""
    found = re.match(r"(?:class|struct|enum class)\s+(?:\[\[\w+\]\]\s*)?(\w+)", declaration)
    if found:
        return found[1]
    bare = without(re.sub(r"\brequires\b\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?", " ", declaration), "<", ">")
    bare = re.sub(r"\[\[\w+\]\]|\btemplate\b", " ", bare)
    found = re.search(r"(~?\w+)\s*\(", bare) or re.search(r"(\w+)\s*(?:;|=|\{|$)", bare)
    return found[1] if found else "?"


def clauses(comment):
    """Yields the promises of a doc comment."""
    comment = " ".join(comment.split())
    for begin in re.finditer(r"@throws\b", comment):
        rest = comment[begin.end():]
        end = END_OF_PROMISE.search(rest)
        text = rest[:end.start()] if end else rest
        if not text.strip().rstrip(".").removesuffix("and"):
            text = ""
        depth, clause = 0, ""
        for character in text + ";":
            depth += (character in "({") - (character in ")}")
            if character == ";" and depth == 0:
                yield from filter(None, [clause.strip().rstrip(".")])
                clause = ""
            else:
                clause += character


def promises_of(text):
    """Yields (function, clause) for each promise of a header."""
    scopes, comment, declaration = [], [], ""
    for line in text.splitlines():
        doc = re.match(r"\s*///(?!<) ?(.*)", line)
        if doc:
            comment.append(doc[1])
            declaration = ""
            continue
        code = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'', '""', line).split("//")[0]
        if code.strip().startswith("#"):
            continue
        for piece in re.split(r"([{};])", code):
            if piece not in ("{", "}", ";"):
                declaration += " " + piece
                continue
            if comment and declaration.strip():
                yield from ((("::".join([*filter(None, scopes), declared_name(declaration.strip())])), clause)
                            for clause in clauses(" ".join(comment)))
                comment = []
            if piece == "{":
                bare = re.sub(r"\btemplate\s*", "", without(declaration, "<", ">")).strip()
                named = re.match(r"(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?(\w+)", bare)
                scopes.append(named[1] if named else None)
            elif piece == "}" and scopes:
                scopes.pop()
            declaration = ""


def promises_in(root):
    """How many overloads make each promise of the public headers, by (function, clause)."""
    found = collections.Counter()
    for header in sorted((root / "include").rglob("*.hpp")):
        found.update(promises_of(header.read_text()))
    return found


def heading(function, overloads):
    return function if overloads == 1 else f"{function} ({overloads} overloads)"


def rows_of(table):
    """Yields (function, clause, places) for each row of the table."""
    function = clause = None
    places = []
    for line in [*table.splitlines(), "end"]:
        depth = len(line) - len(line.lstrip())
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if depth < 4 and clause is not None:
            yield function, clause, places
            clause, places = None, []
        if depth == 0:
            function = text
        elif depth == 2:
            clause = text
        else:
            places.append(text)


class Tests:
    """The tests of the repository."""

    def __init__(self, root):
        self.root = root
        self.files = {}  # by "Suite.Case", the files that define it
        for file in sorted((root / "tests").rglob("*.[ch]pp")):
            for suite, case in GOOGLE_TEST.findall(file.read_text()):
                self.files.setdefault(f"{suite}.{case}", []).append(file)

    def fault_of(self, place, clause):
        """What is wrong with a place that is to show a promise; None if nothing is."""
        if place.startswith("because:"):
            return None if len(place.split()) > 3 else "gives no reason"
        if ": " in place:
            name, words = place.split(": ", 1)
            files = [file for folder in ("tests", "mpi-scripts") for file in (self.root / folder).rglob(name)]
            if not files:
                return f"there is no file {name}"
            texts = [text for file in files for text in [file.read_text()] if words in text]
            if not texts:
                return f"{name} has no '{words}'"
        else:
            folder, _, name = place.rpartition("/")
            files = [file for file in self.files.get(name, []) if (self.root / "tests" / folder) in file.parents]
            if not folder or not files:
                return f"there is no test {place}"
            texts = [text.read_text() for file in files for text in [file, *file.parent.glob("*.hpp")]]
        codes = {code.strip() for group in CODE.findall(clause) for code in group.split("|")} - {""}
        words = [rf"\b{code.replace('_', '[_ ]')}\b" for code in codes]
        if codes and not any(re.search(word, text) for word in words for text in texts):
            return f"the file of {place} never mentions {' or '.join(sorted(codes))}"
        return None


def faults(root, table):
    """Yields what is wrong with the table."""
    promised = promises_in(root)
    expected = {(heading(function, overloads), clause) for (function, clause), overloads in promised.items()}
    if not expected:
        yield "the public headers promise nothing: include/ was not found"
    tests = Tests(root)
    seen = set()
    for function, clause, places in rows_of(table):
        row = f"{function}: {clause}"
        if (function, clause) in seen:
            yield f"two rows for {row}"
        seen.add((function, clause))
        if (function, clause) not in expected:
            yield f"no public header says (any more): {row}"
        if not places:
            yield f"nothing shows: {row}"
        for place in places:
            fault = tests.fault_of(place, clause)
            if fault:
                yield f"{row}: {fault}"
    for function, clause in sorted(expected - seen):
        yield f"no row for {function}: {clause}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print all promises as an empty table")
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    if arguments.list:
        last = None
        for (function, clause), overloads in promises_in(root).items():
            if heading(function, overloads) != last:
                last = heading(function, overloads)
                print(last)
            print(f"  {clause}")
        return
    table = (root / "tests" / "architecture" / "throws.txt").read_text()
    found = list(faults(root, table))
    rows = list(rows_of(table))
    reasons = sum(any(place.startswith("because:") for place in places) for _, _, places in rows)
    print("\n".join(found) or f"{len(rows)} promises of the public headers, {reasons} of them with a reason instead of a test")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
