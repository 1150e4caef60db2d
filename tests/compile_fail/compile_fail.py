#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles what must not compile: compile_fail.py ROOT COMPILER [OPTION...]

cases.txt says what that is. The compiler has to refuse each case with words that say what to do, and to take its twin, so
that no case fails for another reason. All cases are compiled as one file, and all twins as another.
"""
import pathlib
import re
import subprocess
import sys

HEAD = """#include <cstdint>
#include <deque>
#include <list>
#include <span>
#include <string>
#include <vector>
#include <lockstep/lockstep.hpp>
using namespace lockstep;
template <typename T>
struct Strided {
  struct Iterator {
    T* at;
    int step;
    T& operator*() const { return *at; }
    Iterator& operator++() { at += step; return *this; }
    bool operator!=(const Iterator& other) const { return at != other.at; }
  };
  T* first;
  int step;
  int count;
  Iterator begin() const { return {first, step}; }
  Iterator end() const { return {first + step * count, step}; }
};
"""
PARAMETERS = ("[[maybe_unused]] World& world, [[maybe_unused]] ProcessGroup& group, [[maybe_unused]] Communicator& communicator, "
              "[[maybe_unused]] Checkpoint& checkpoint, [[maybe_unused]] DataParallel& parallel, "
              "[[maybe_unused]] std::vector<float>& numbers, [[maybe_unused]] const std::vector<float>& fixed")
CASE = re.compile(r"^\[(\w+)\]\nsays: (.+)\nnot: (.+)\nbut: (.+)\n", re.M)


def diagnostics(bodies, command):
    """What the compiler says about a function for each body: its errors with their notes, by the number of the body."""
    lines = [f"void body_{number}({PARAMETERS}) {{ {body} }}" for number, body in enumerate(bodies)]
    result = subprocess.run([*command, "-std=c++20", "-fsyntax-only", "-w", "-x", "c++", "-"],
                            input=HEAD + "\n".join(lines) + "\n", capture_output=True, text=True)
    first = HEAD.count("\n") + 1
    found = {}
    for message in re.split(r"(?=^<stdin>:\d+:\d+: error: )", result.stderr, flags=re.M):
        place = re.match(r"<stdin>:(\d+):", message)
        if place:
            found.setdefault(int(place[1]) - first, []).append(message)
    if result.returncode != 0 and not found:
        raise SystemExit(result.stderr)
    return found


def faults(cases, command):
    """Yields what is wrong with the cases."""
    refused = diagnostics([wrong for _, _, wrong, _ in cases], command)
    accepted = diagnostics([right for _, _, _, right in cases], command)
    for number, (name, words, wrong, right) in enumerate(cases):
        if number not in refused:
            yield f"{name} compiles: {wrong}"
        elif not any(words in message for message in refused[number]):
            yield f"{name} is refused without '{words}':\n{''.join(refused[number])}"
        if number in accepted:
            yield f"the twin of {name} does not compile: {right}\n{''.join(accepted[number])}"


def main():
    root, command = pathlib.Path(sys.argv[1]), [*sys.argv[2:], "-I", str(pathlib.Path(sys.argv[1]) / "include")]
    text = (root / "tests" / "compile_fail" / "cases.txt").read_text()
    cases = CASE.findall(text)
    found = list(faults(cases, command))
    if len(cases) != len(re.findall(r"^\[", text, re.M)):
        found.append("a case of cases.txt lacks one of the lines says, not and but")
    print("\n".join(found) or f"{len(cases)} cases are refused with words that say what to do, and their twins compile")
    return 1 if found or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
