#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that links lead somewhere, that pages say what they are for, and that the files that they name exist.

  links.py FILE.md...        relative links of Markdown files: the file is there, and so is the heading behind a #. Each page of docs/
                             begins with "This page", except for single design decisions, which begin with their context. Names of
                             files in code belong to files of the repository, and in the table of files of docs/architecture.md to
                             files of the room
  links.py --site FOLDER     relative links of the documentation site that are in its pages of prose; and the navigation, which
                             has each of these pages, except for single design decisions
Prints each fault that it finds, and then fails.
"""
import fnmatch
import functools
import pathlib
import re
import subprocess
import sys
import urllib.parse

EXTERNAL = re.compile(r"[a-z]+:")
SOURCE = re.compile(r"[\w*./-]+\.(?:cpp|hpp|cu|cuh|sh|py|sbatch|def|cmake|conf|pl)\b")
# Files of other programs, of runs and of examples.
FOREIGN = {"train.py", "tools/train.py", "val.py", "detect.py", "dnnl.hpp", "pugixml.hpp", "dnnl-config.cmake", "options.conf", "src/nn/models/some-model.cpp"}


def without_code(markdown):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", markdown, flags=re.S | re.M))


@functools.cache
def anchors(path):
    """Of a file's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*)$", re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).strip().replace(" ", "-")
            for heading in headings}


@functools.cache
def repository():
    """The names of all files."""
    if not pathlib.Path(".git").exists():  # a tarball
        return [str(file) for file in pathlib.Path(".").rglob("*") if file.is_file() and file.parts[0] != "build"]
    return subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines()


def unknown_files(text):
    for code in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)):
        for name in (found.removeprefix("./") for found in SOURCE.findall(code)):
            if name not in FOREIGN and not any(fnmatch.fnmatch("/" + file, "*/" + name) for file in repository()):
                yield f"there is no file {name}"


def unknown_in_rooms(text):
    """Of the table "Room | Files, from the first to the last": each name stands for a file or an inner room, whatever its extension."""
    table = re.search(r"^\| Room \| Files.*?\n\|[-|]+\n((?:\|.*\n)+)", text, flags=re.M)
    for row in table[1].splitlines() if table else []:
        room, names = re.match(r"\| `([^`]+)` \|(.*)", row).groups()
        folders = tuple(f"{root}{room.removesuffix('/…')}/" for root in ("", "src/", "include/lockstep/"))
        known = {part.split(".")[0] for file in repository() if file.startswith(folders) for part in file.split("/")}
        yield from (f"{room} has no file {name}" for name in re.findall(r"`([a-z0-9_]+)`", names) if name not in known)


def faults_of_markdown(path):
    text = path.read_text()
    if path.parts[0] == "docs" and not re.match(r"docs/adr/\d", str(path)):
        first = re.sub(r"<!--.*?-->", "", text, flags=re.S).split("\n", 1)[1].lstrip()
        if not first.startswith("This page "):
            yield 'the first sentence has to say what the page is for: "This page …"'
    yield from unknown_files(text)
    if path.name == "architecture.md":
        yield from unknown_in_rooms(text)
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
        if EXTERNAL.match(link):
            continue
        name, _, anchor = urllib.parse.unquote(link).partition("#")
        target = (path.parent / name).resolve() if name else path.resolve()
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield f"{link} leads nowhere"


def faults_of_page(path):
    for link in re.findall(r'(?:href|src)="([^"#]+)', path.read_text()):
        if not EXTERNAL.match(link) and not (path.parent / urllib.parse.unquote(link)).exists():
            yield f"{link} leads nowhere"


def not_in_navigation(folder):
    navigation = (folder / "navtreedata.js").read_text()
    for page in sorted(folder.glob("md_*.html")):
        if page.name not in navigation and not page.name.startswith("md_docs_adr_0"):
            yield f"{page}: add this page to the navigation in docs/site/layout.xml"


def main(arguments):
    missing = []
    if len(arguments) == 2 and arguments[0] == "--site":
        folder, find = pathlib.Path(arguments[1]), faults_of_page
        paths = [folder / "index.html", *sorted(folder.glob("md_*.html"))]
        missing = list(not_in_navigation(folder))
    elif arguments and not arguments[0].startswith("-"):
        paths, find = map(pathlib.Path, arguments), faults_of_markdown
    else:
        sys.exit(__doc__)
    faults = [f"{path}: {fault}" for path in paths for fault in find(path)] + missing
    sys.exit("\n".join(faults) or None)


if __name__ == "__main__":
    main(sys.argv[1:])
