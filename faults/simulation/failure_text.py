"""Failure text: the lines of one broken promise, for terminals, pages and JUnit.

All lines fit 80 columns. Lines for a pipe are not wrapped, so that grep finds them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from io import StringIO
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape

from .prose import print_line


class LineKind(Enum):
    """The role of a line, which determines its format."""

    CLAIM = "claim"
    TEXT = "text"
    LABEL = "label"
    DETAIL = "detail"
    SOURCE = "source"
    """Program step that caused the previous detail."""
    STEP = "step"
    """Step of the run before the breach."""


_FORMATS = {
    LineKind.CLAIM: ("claim: {}", 2, ""),
    LineKind.TEXT: ("{}", 2, ""),
    LineKind.LABEL: ("{}:", 2, ""),
    LineKind.DETAIL: ("{}", 4, ""),
    LineKind.SOURCE: ("by {}", 6, "dim"),
    LineKind.STEP: ("{}", 2, "dim"),
}


class TextLine(NamedTuple):
    """One line of a failure."""

    kind: LineKind
    text: str


@dataclass(frozen=True, slots=True)
class FailureText:
    """A broken promise, the events before it, and the command that reproduces it."""

    title: str
    lines: Sequence[TextLine]
    again: str = ""
    about: str = ""
    """Text about the run, after the title."""
    heading: str = "broken"
    anchor: str = ""
    files: str = ""
    """Directory with the files after the crash."""
    links: Sequence[tuple[str, str]] = ()
    """Links to files: text, and path relative to the directory of the page."""
    code: str = ""
    """Line of code to look at first, as `path:line`; the path may be relative to the root of the checkout."""


def step_lines(lines: Sequence[TextLine]) -> list[str]:
    """Return the printed details, sources and steps, without the common indent."""
    looks = ((_FORMATS[kind], text) for kind, text in lines)
    return [" " * (indent - 2) + words.format(text) for (words, indent, _), text in looks]


def print_failure(console: Console, failure: FailureText) -> None:
    title = ", ".join(filter(None, (failure.title, failure.about)))
    console.print(f"\n[red]{failure.heading}[/red]: {escape(title)}", soft_wrap=True)
    for kind, text in failure.lines:
        words, indent, style = _FORMATS[kind]
        print_line(console, indent, words.format(text), style=style)
    for words, text in (("files", failure.files), ("reproduce", failure.again)):
        if text:
            console.print(f"  {words}: [bold]{escape(text)}[/bold]", soft_wrap=True)


def plain_text(failure: FailureText) -> str:
    text = StringIO()
    print_failure(Console(file=text, force_terminal=False, color_system=None, highlight=False), failure)
    return text.getvalue().strip()
