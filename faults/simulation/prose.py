"""Story lines on a terminal: wraps long lines and shows control characters as dots.

Lines for a pipe are not wrapped, so that grep finds them.
"""

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

_CHARACTERS_MAX = 3_000


def print_line(console: Console, indent: int, line: str, *, style: str = "") -> None:
    """Print one line. Very long lines are truncated."""
    if len(line) > _CHARACTERS_MAX:
        line = f"{line[:_CHARACTERS_MAX]}… ({len(line):,} characters)"
    line = printable(line)
    if console.is_terminal:
        console.print(Padding(Text(line, style), (0, 0, 0, indent)))
    else:
        console.print(Text(" " * indent + line, style), soft_wrap=True)


def printable(line: str) -> str:
    return "".join(char if char.isprintable() else "·" for char in line)
