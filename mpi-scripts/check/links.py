#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that links lead somewhere.

  links.py FILE.md...        relative links of Markdown files: the file is there, and so is the heading behind a #
  links.py --site FOLDER     relative links of the documentation site that are in its pages of prose; and the navigation, which
                             has each of these pages, except for single design decisions
Prints each link that leads nowhere, and then fails.
"""
import functools
import pathlib
import re
import sys
import urllib.parse

EXTERNAL = re.compile(r"[a-z]+:")


def without_code(markdown):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", markdown, flags=re.S | re.M))


@functools.cache
def anchors(path):
    """Of a file's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*)$", re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).strip().replace(" ", "-")
            for heading in headings}


def dead_in_markdown(path):
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text())):
        if EXTERNAL.match(link):
            continue
        name, _, anchor = urllib.parse.unquote(link).partition("#")
        target = (path.parent / name).resolve() if name else path.resolve()
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield link


def dead_in_page(path):
    for link in re.findall(r'(?:href|src)="([^"#]+)', path.read_text()):
        if not EXTERNAL.match(link) and not (path.parent / urllib.parse.unquote(link)).exists():
            yield link


def not_in_navigation(folder):
    navigation = (folder / "navtreedata.js").read_text()
    for page in sorted(folder.glob("md_*.html")):
        if page.name not in navigation and not page.name.startswith("md_docs_adr_0"):
            yield f"{page}: add this page to the navigation in docs/site/layout.xml"


def main(arguments):
    missing = []
    if len(arguments) == 2 and arguments[0] == "--site":
        folder, find = pathlib.Path(arguments[1]), dead_in_page
        paths = [folder / "index.html", *sorted(folder.glob("md_*.html"))]
        missing = list(not_in_navigation(folder))
    elif arguments and not arguments[0].startswith("-"):
        paths, find = map(pathlib.Path, arguments), dead_in_markdown
    else:
        sys.exit(__doc__)
    dead = [f"{path}: {link} leads nowhere" for path in paths for link in find(path)]
    sys.exit("\n".join(dead + missing) or None)


if __name__ == "__main__":
    main(sys.argv[1:])
