"""Lines of a story on a terminal: what cannot be seen is shown as dots, and what is long is wrapped within its indent.

In a pipe nothing is wrapped: lines there are for grep.
"""

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

_CHARACTERS_MAX = 3_000


def prose(console: Console, indent: int, line: str, *, style: str = "") -> None:
    """Print one line, indented, its control characters as dots, and on a terminal wrapped within the indent.

    Of a very long one, as bytes in hexadecimal are, only the beginning is printed.
    """
    if len(line) > _CHARACTERS_MAX:
        line = f"{line[:_CHARACTERS_MAX]}… ({len(line):,} characters)"
    line = printable(line)
    if console.is_terminal:
        console.print(Padding(Text(line, style), (0, 0, 0, indent)))
    else:
        console.print(Text(" " * indent + line, style), soft_wrap=True)


def printable(line: str) -> str:
    """Return a line with a dot for whatever is no character that can be seen."""
    return "".join(char if char.isprintable() else "·" for char in line)
