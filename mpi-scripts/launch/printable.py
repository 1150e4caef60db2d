# SPDX-License-Identifier: Apache-2.0
"""What others have named or said, such as hosts, paths and probes, in messages: nothing that a terminal would obey."""


def printable(text):
    """The text with '?' for control characters, characters that change the order of others, and bytes that are not UTF-8."""
    return "".join(character if character == "\n" or character.isprintable() else "?" for character in text)


class Printable:
    """A stream of text that writes only what is printable. What ranks write goes by its buffer, as it is."""

    def __init__(self, stream):
        self.stream = stream

    def write(self, text):
        return self.stream.write(printable(text))

    def __getattr__(self, name):
        return getattr(self.stream, name)
