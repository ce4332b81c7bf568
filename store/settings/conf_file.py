"""Editor of a broker.conf: changes some settings and keeps all other lines.

RocketMQ instead rewrites the file with all keys and loses comments.
"""

import re
from collections.abc import Mapping

from ..formats.java_properties import parse_properties
from ..side_file import SideFile
from ..world import Files

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
"""A line with its line end. Lines end at CR and LF only, as in the parser; `splitlines` also splits at U+2028."""


def change_settings_in_text(text: str, settings: Mapping[str, str]) -> str:
    r"""Return the text with new values for the given keys. Missing keys are appended.

    >>> change_settings_in_text("# kept\na=1\nb = 2\n", {"b": "3", "c": "4"})
    '# kept\na=1\nb=3\nc=4\n'
    """
    lines = _LINE.findall(text)
    count = len(lines)
    missing = dict(settings)
    for each in parse_properties(text):
        if each.key in settings:
            at, end = each.line - 1, each.line
            assert end <= count, (each.line, count)
            while end < count and _is_continued(lines[end - 1]):
                end += 1
            written = _setting_line(each.key, missing.pop(each.key)) if each.key in missing else ""
            # The first line of a key gets the new value. Its other lines become empty, so that line numbers stay valid.
            lines[at:end] = [written, *[""] * (end - at - 1)]
            assert len(lines) == count, (len(lines), count)
    if missing and lines and not lines[-1].endswith(("\n", "\r")):
        lines.append("\n")
    return "".join([*lines, *(_setting_line(key, value) for key, value in missing.items())])


def _setting_line(key: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\")
    return f"{key}={escaped}\n"


def _is_continued(line: str) -> bool:
    bare = line.rstrip("\r\n")
    return (len(bare) - len(bare.rstrip("\\"))) % 2 == 1


class ConfFile:
    """The broker.conf of one broker. Not thread-safe."""

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self._files = files

    def write(self, settings: Mapping[str, str]) -> None:
        """Change settings durably, and keep a copy of the old file as `.bak`. Raises OSError if the disk fails.

        If the file is missing, the new file contains only these settings.
        """
        # Read the file each time, because an operator may have edited it. Windows editors add a byte order mark.
        old = SideFile(self._files, self.path)
        text = old.load(lambda raw, _: raw.decode("utf-8-sig")) or ""
        # A start reads only this path. A side file that was loaded would rename the old file away before the new one
        # replaces it, so a crash between the two would leave the broker without its settings.
        if text:
            SideFile(self._files, old.backup_path).store(text.encode())
        SideFile(self._files, self.path).store(change_settings_in_text(text, settings).encode())
