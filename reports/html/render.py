"""Page writer: renders a result with a template that escapes all text."""

import platform
from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from itertools import groupby
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from ... import __version__
from ...faults.simulation.failure_text import LineKind, TextLine, step_lines
from ...faults.simulation.prose import printable
from ...store.errors import install_command
from ..quantities import count_text
from ..results.model import On, Picture, Result, ResultBlock, Tone

_MARKS = {Tone.HELD: "✓", Tone.BROKEN: "✗", Tone.UNSURE: "!"}
"""Signs of verdicts, because some readers cannot see the colours."""
_HINT = f"Pictures need matplotlib; {install_command('plot')} installs it."
_STORY = "story"
_AS_THEY_ARE = (LineKind.DETAIL, LineKind.SOURCE, LineKind.STEP)


def render_page(result: Result) -> str:
    here = files(__package__)
    style = "\n".join(here.joinpath(file).read_text("utf-8") for file in ("palette.css", "report.css"))
    environment = environment_of(__package__, finalize=_printable)
    link = partial(quote, errors="replace")
    environment.filters |= {
        "figure": "{:,}".format,
        "address": link,
        "counted": count_text,
        "groups_of_lines": _groups_of_lines,
        "svg": _svg_markup,
    }
    return environment.get_template("report.html").render(
        result=result,
        hint=_HINT,
        mark=_MARKS[result.verdict.tone],
        style=style,
        versions={"tornlog": __version__, "python": platform.python_version()},
        sections=_page_sections(result.blocks),
    )


def _page_sections(blocks: Sequence[ResultBlock]) -> list[list[ResultBlock]]:
    """Divide blocks into sections. A block with an anchor starts a section."""
    sections: list[list[ResultBlock]] = []
    for block in blocks:
        if block.on & On.PAGE and not block.is_empty:
            if block.anchor or not sections:
                sections.append([])
            sections[-1].append(block)
    anchors = [section[0].anchor for section in sections]
    assert len(set(anchors)) == len(anchors), f"links to sections need different anchors: {anchors}"
    return sections


def _groups_of_lines(lines: Sequence[TextLine]) -> list[tuple[str, list[str]]]:
    """Group consecutive lines of one kind; details, sources and steps count as one kind."""
    grouped = groupby(lines, lambda line: _STORY if line.kind in _AS_THEY_ARE else line.kind.value)
    return [
        (kind, step_lines(list(some)) if kind == _STORY else [line.text for line in some]) for kind, some in grouped
    ]


def environment_of(package: str, **more: Any) -> Environment:
    return Environment(
        loader=PackageLoader(package, "."),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **more,
    )


def _printable(value: Any) -> Any:
    """Replace invisible characters and characters that UTF-8 cannot encode."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join(printable(line) for line in value.split("\n"))
    return value


def _svg_markup(picture: Picture) -> Markup:
    try:
        return Markup(picture.draw())
    except ImportError:
        return Markup("")
