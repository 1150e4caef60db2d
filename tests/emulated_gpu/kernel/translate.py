#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a .cu file into C++: launches become calls, shared variables storage of the block, and what lies in a GPU's
memory is put where the checks of kernels find it. Everything else stays as it is, in its line.

  translate.py FROM.cu TO.cpp

What it does not understand it refuses, by file and line."""
import os
import re
import sys

NUMBER = r"(?<!\w)\.?\d(?:'?[\w.])*"  # its separators are no quotes
QUOTED = r'R"([^()\s\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])*'"
UNSEEN = re.compile(rf"{NUMBER}|//[^\n]*|/\*.*?\*/|{QUOTED}", re.S)
SPECIFIER = r"(?:\b(?:extern|static|volatile)\b|\b(?:__align__|alignas)\s*\([^()]*\))"
NAME = r"[A-Za-z_]\w*"


class Refusal(Exception):
    pass


def blank(text):
    """The text with comments and literals made blank, so that places stay the same."""
    return UNSEEN.sub(lambda m: m[0] if m[0][0] in ".0123456789" else re.sub(r"[^\n]", " ", m[0]), text)


class Source:
    def __init__(self, path):
        self.path = path
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        self.plain = blank(self.text)
        self.edits = []  # begin, end, what comes instead; line breaks stay

    def refuse(self, place, why):
        raise Refusal(f"{self.path}:{self.plain.count(chr(10), 0, place) + 1}: {why}")

    def find_at_depth_0(self, begin, wanted, what):
        """Where `wanted` is first met outside of brackets."""
        depth = 0
        for at in range(begin, len(self.plain)):
            if depth == 0 and self.plain.startswith(wanted, at):
                return at
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(self.plain[at], 0)
            if depth < 0:
                break
        self.refuse(begin, what)

    def begin_of_template_arguments(self, end):
        """From behind a closing > back to its opening <."""
        depth = brackets = 0
        for at in range(end - 1, 0, -1):
            char = self.plain[at]
            brackets += {")": 1, "]": 1, "}": 1, "(": -1, "[": -1, "{": -1}.get(char, 0)
            if brackets == 0 and self.plain[at - 1 : at + 1] != "->":
                depth += {">": 1, "<": -1}.get(char, 0)
            if depth == 0:
                return at
        self.refuse(end, "template arguments without a beginning")

    def begin_of_kernel(self, place):
        """Of its name with namespaces and template arguments, which end at `place`."""
        at = len(self.plain[:place].rstrip())
        if self.plain[at - 1] == ">":
            at = len(self.plain[: self.begin_of_template_arguments(at)].rstrip())
        name = re.search(rf"(?:::\s*)?(?:{NAME}\s*::\s*)*{NAME}$", self.plain[:at])
        if name is None or re.search(r"(?:\.|->|>\s*::|\btemplate)\s*$", self.plain[: name.start()]):
            self.refuse(place, "a launch has to name its kernel: kernel<<<…>>>(…) or space::kernel<T><<<…>>>(…)")
        return name.start()

    def launches(self):
        for match in re.finditer("<<<", self.plain):
            begin = self.begin_of_kernel(match.start())
            kernel = " ".join(self.text[begin : match.start()].split())
            end = self.find_at_depth_0(match.end(), ">>>", "a launch without >>>")
            opening = re.compile(r"\s*\(").match(self.plain, end + 3)
            if opening is None:
                self.refuse(end, "a launch without its kernel's arguments")
            close = self.find_at_depth_0(opening.end(), ")", "a launch without )")
            arguments = UNSEEN.sub(lambda m: "" if m[0][:2] in ("//", "/*") else m[0], self.text[opening.end() : close])
            comma = ", " if arguments.strip() else ""
            name = kernel.split("<")[0].strip()
            self.edits.append((begin, match.end(), f'::emulated_gpu::launch("{name}", [=](auto... emulated_arguments) '
                               f"{{ {kernel}(emulated_arguments...); }}, ::emulated_gpu::configuration("))
            self.edits.append((end, opening.end(), ")" + comma))

    def is_in_function(self, place):
        """Whether the innermost braces around are no namespace's or type's."""
        depth = 0
        for at in range(place - 1, -1, -1):
            depth += {"}": 1, "{": -1}.get(self.plain[at], 0)
            if depth < 0:
                head = re.search(r"[^;{}]*$", self.plain[:at])[0]
                return re.search(r"\)|\b(?:else|do|try)\b|\]\s*$", head) is not None or not head.strip()
        return False

    def shared_variables(self):
        for match in re.finditer(r"\b__shared__\b", self.plain):
            place = match.start()
            before = re.search(rf"(?:{SPECIFIER}\s*)*\Z", self.plain[:place])
            end = self.find_at_depth_0(match.end(), ";", "a shared variable without ;")
            after = re.compile(rf"\s*(?:{SPECIFIER}\s*)*").match(self.plain, match.end())
            if self.plain[: before.start()].rstrip()[-1:] not in (";", "{", "}") or not self.is_in_function(place):
                self.refuse(place, "a shared variable has to be a statement of its own, in a function")
            declarators = rf"{NAME}\s*(?:\[[^\]]*\]\s*)*"
            found = re.fullmatch(rf"(?P<type>.*?[\s*>])(?P<all>{declarators}(?:,\s*{declarators})*)",
                                 self.plain[after.end() : end], re.S)
            if found is None or re.search("[=,]", re.sub(r"<.*>|\(.*?\)", "", found["type"])):
                self.refuse(place, "a shared variable is declared as __shared__ type name[extent]; without a value")
            variables = re.findall(rf"({NAME})\s*((?:\[[^\]]*\]\s*)*)", " ".join(found["all"].split()))
            if "*" in found["type"] and len(variables) > 1:
                self.refuse(place, "several shared variables of one declaration may not be pointers")
            kind = " ".join(found["type"].split())
            self.edits.append((before.start(), end + 1, self.storage_of(place, before[0] + after[0], kind, variables)))

    def storage_of(self, place, specifiers, kind, variables):
        if re.search(r"\bvolatile\b", specifiers):
            kind = "volatile " + kind
        alignment = re.search(r"\(([^()]*)\)", specifiers)
        align = f", {alignment[1]}" if alignment else ""
        is_dynamic = re.search(r"\bextern\b", specifiers) is not None
        statements = []
        for name, extents in variables:
            if is_dynamic != ("[]" in extents.replace(" ", "")):
                self.refuse(place, "dynamic shared memory, and only that, is extern __shared__ type name[];")
            if is_dynamic:
                statements.append(f"auto* const {name} = ::emulated_gpu::dynamic_shared<{kind}>();")
                continue
            key = f"emulated_gpu_key_of_{name}"
            statements.append(f"static const char {key} = 0; auto& {name} = "
                              f"::emulated_gpu::shared_variable<{kind}{extents.strip()}>(&{key}{align});")
        return " ".join(statements)

    def variables_of_gpus(self):
        """Those that kernels may write; what is constant lies anywhere."""
        for match in re.finditer(r"\b(?:__device__|__managed__)\b", self.plain):
            rest = re.sub(rf"{SPECIFIER}|__launch_bounds__\s*\([^()]*\)|\bdecltype\s*\([^()]*\)",
                          lambda m: " " * len(m[0]), self.plain[match.end() : match.end() + 2000])
            stop = re.search(r"[(;={\[]", rest)
            constant = r"\b(?:const|constexpr|operator|struct|class|__device__|__managed__)\b"
            if stop is None or stop[0] == "(" or re.search(constant, rest[: stop.start()]):
                continue
            self.edits.append((match.end(), match.end(), ' __attribute__((section("emulated_gpu_variables")))'))

    def refuse_what_would_be_misread(self):
        for match in re.finditer(r"\basm\b|\b__asm__\b", self.plain):
            self.refuse(match.start(), "assembly code of a GPU")
        for match in re.finditer(r"^[ \t]*#[ \t]*define\b(?:\\\n|[^\n])*", self.plain, re.M):
            if "__shared__" in match[0] or "<<<" in match[0]:
                self.refuse(match.start(), "a macro with a launch or a shared variable")
        for match in re.finditer(r"\bcudaLaunch(?:Cooperative)?Kernel\w*", self.plain):
            self.refuse(match.start(), "a launch by " + match[0])

    def translated(self):
        self.refuse_what_would_be_misread()
        self.launches()
        self.shared_variables()
        self.variables_of_gpus()
        result, at = [], 0
        for begin, end, instead in sorted(self.edits):
            if begin < at:
                self.refuse(begin, "a launch within a launch")
            result += [self.text[at:begin], instead, "\n" * self.text.count("\n", begin, end)]
            at = end
        path = os.path.abspath(self.path).replace("\\", "\\\\").replace('"', '\\"')
        return f'#include "emulated_gpu/kernel/device.hpp"\n#line 1 "{path}"\n{"".join(result)}{self.text[at:]}'


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        text = Source(sys.argv[1]).translated()
    except Refusal as refusal:
        sys.exit(str(refusal))
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
