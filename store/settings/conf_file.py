"""Editor of a broker.conf: what is changed changes, and every other line stays as somebody has written it.

RocketMQ writes the whole file anew, with every key it knows, and no comment survives. A later start reads the same
settings from either.
"""

import re
from collections.abc import Mapping

from ..formats.java_properties import parse_properties
from ..side_file import SideFile
from ..world import Files

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
"""A line with its end, as the reader counts lines: a form feed or U+2028 ends none, though `splitlines` has it so."""


def changed_text(text: str, settings: Mapping[str, str]) -> str:
    r"""Return a file's text with other values for some keys; a key that it does not have comes at the end.

    >>> changed_text("# kept\na=1\nb = 2\n", {"b": "3", "c": "4"})
    '# kept\na=1\nb=3\nc=4\n'
    """
    lines = _LINE.findall(text)
    count = len(lines)
    left = dict(settings)
    for each in parse_properties(text):
        if each.key in settings:
            at, end = each.line - 1, each.line
            assert end <= count, (each.line, count)
            while end < count and _goes_on(lines[end - 1]):
                end += 1
            written = _line(each.key, left.pop(each.key)) if each.key in left else ""
            # The first line of a key gets the new value; repeated lines become empty.
            lines[at:end] = [written, *[""] * (end - at - 1)]  # as many as there were: numbers of lines stay
            assert len(lines) == count, (len(lines), count)
    if left and lines and not lines[-1].endswith(("\n", "\r")):
        lines.append("\n")
    return "".join([*lines, *(_line(key, value) for key, value in left.items())])


def _line(key: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\")
    return f"{key}={escaped}\n"


def _goes_on(line: str) -> bool:
    r"""Return whether the next line belongs to this one: it ends in a \ that no other one escapes."""
    bare = line.rstrip("\r\n")
    return (len(bare) - len(bare.rstrip("\\"))) % 2 == 1


class ConfFile:
    """The broker.conf of a broker that runs. One task at a time calls it."""

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self._file = SideFile(files, path)

    def write(self, settings: Mapping[str, str]) -> None:
        """Have the file say these settings, durably; the one before is kept as `.bak`. OSError if the disk fails.

        A file that has gone meanwhile begins anew, with these settings alone.
        """
        # Read anew each time: an operator may have edited it. Editors on Windows put a byte order mark in front.
        text = self._file.load(lambda raw, _: raw.decode("utf-8-sig")) or ""
        self._file.store(changed_text(text, settings).encode())
