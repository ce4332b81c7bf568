"""Templates to pages: one environment, in which every text is escaped and readable whatever it holds."""

import platform
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from ... import __version__
from ...scenarios.campaigns.failures.print_failure import printable

MARKS = {"held": "✓", "broken": "✗", "unsure": "!"}
"""Each tone's sign, for those who see no colours."""
Facts = list[tuple[str, str]]
"""Figures of a summary: what they count, and how many."""


class PageVerdict(NamedTuple):
    """What it all came to. tone: held, broken, or unsure if neither is said."""

    tone: str
    text: str
    more: tuple[str, ...] = ()
    """Lines beneath it."""


class Picture(NamedTuple):
    """A picture as SVG; or, if there is nothing to draw it with, how to get that."""

    svg: str
    hint: str = ""


def render(template: str, name: str, verdict: PageVerdict, command: str, facts: Facts, **more: Any) -> str:
    """Return a page; name: of the command; sections, in more: what can be jumped to, as anchors and titles."""
    here = files(__package__)
    style = "\n".join(here.joinpath(file).read_text("utf-8") for file in ("palette.css", "report.css"))
    return (
        _environment()
        .get_template(template)
        .render(
            name=name,
            verdict=verdict,
            command=command,
            facts=facts,
            marks=MARKS,
            style=style,
            versions={"tornlog": __version__, "python": platform.python_version()},
            **more,
        )
    )


def figure(number: int) -> str:
    """Return a whole number for a reader."""
    return f"{number:,}"


def counted(number: int, one: str) -> str:
    """Return a number of things, each of which is called so."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        finalize=_readable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"figure": figure, "counted": counted, "address": _address}
    return environment


def _address(text: str) -> str:
    """Return a path or an anchor as a link has it."""
    return quote(text, errors="replace")


def _readable(value: Any) -> Any:
    """Return a value without characters that nobody can see, or that UTF-8 has no bytes for."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join(printable(line) for line in value.split("\n"))
    return value
