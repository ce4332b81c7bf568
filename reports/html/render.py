"""Templates to pages: one environment, in which every text is escaped and readable whatever it holds; and pictures."""

import platform
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from ... import __version__
from ...faults.simulation.prose import printable
from ...store.errors import brings

MARKS = {"held": "✓", "broken": "✗", "unsure": "!"}
"""Each tone's sign, for those who see no colours."""
Facts = list[tuple[str, str]]
"""Figures of a summary: what they count, and how many."""
_HINT = f"Here would be a picture: {brings('plot')} has what draws it."
Row = dict[str, Any]


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


def render(
    template: str,
    name: str,
    verdict: PageVerdict,
    command: str,
    facts: Facts,
    sections: Iterable[tuple[str, str, object]],
    **more: Any,
) -> str:
    """Return a page; name: of the command; sections: anchors, titles, and what is false if there is no such section."""
    here = files(__package__)
    style = "\n".join(here.joinpath(file).read_text("utf-8") for file in ("palette.css", "report.css"))
    environment = environment_of(__package__, finalize=_readable)
    link = partial(quote, errors="replace")
    environment.filters |= {"figure": figure, "counted": counted, "address": link}
    return environment.get_template(template).render(
        name=name,
        verdict=verdict,
        command=command,
        facts=facts,
        marks=MARKS,
        style=style,
        versions={"tornlog": __version__, "python": platform.python_version()},
        sections=[(anchor, title) for anchor, title, content in sections if content],
        **more,
    )


def figure(number: int) -> str:
    """Return a whole number for a reader."""
    return f"{number:,}"


def some_of(names: Sequence[str], most: int) -> str:
    """Return the first few of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def counted(number: int, one: str) -> str:
    """Return a number of things, each of which is called so."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def environment_of(package: str, **more: Any) -> Environment:
    """Return what makes pages of a package's templates."""
    return Environment(
        loader=PackageLoader(package, "."),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **more,
    )


def _readable(value: Any) -> Any:
    """Return a value without characters that nobody can see, or that UTF-8 has no bytes for."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join(printable(line) for line in value.split("\n"))
    return value


def detection_picture(seeds: Sequence[int], mutants: int) -> Picture:
    """Draw how many of some mutants were found within how many seeds; seeds: what each that was found took."""

    def draw() -> str:
        from ..plotting import detection_figure, inline_svg

        return inline_svg(lambda: detection_figure(seeds, mutants), "detection")

    return _picture(draw)


def latency_picture(rows: Sequence[Row]) -> Picture:
    """Draw latencies of puts; rows: as `pipeline.analysis` has them."""

    def draw() -> str:
        from ..plotting import inline_svg, put_latency_figure

        return inline_svg(lambda: put_latency_figure(rows), "latency")

    return _picture(draw)


def _picture(draw: Callable[[], str]) -> Picture:
    try:
        return Picture(draw())
    except ImportError:
        return Picture("", _HINT)
