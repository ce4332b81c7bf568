"""Pictures inside of pages: SVG whose text is text, and whose colours are the page's, in light and dark."""

import re
from collections.abc import Callable
from io import StringIO

import matplotlib as mpl
from matplotlib.figure import Figure

from .style import GRID, INK, KINDS, QUIET, STEPS, house_style

_VARIABLES = {INK: "--ink", QUIET: "--soft", GRID: "--rule", KINDS[0]: "--sync"} | {
    colour: f"--step-{number}" for number, colour in enumerate(STEPS)
}
"""Custom properties of the page that stand in for colours; where it has none, the colour stays."""
_NAMED = re.compile(r'(\bid="|url\(#|href="#)')


def inline_svg(draw: Callable[[], Figure], name: str) -> str:
    """Return a figure, drawn in the house style, as an SVG element; name: of it among those of its page."""
    text = StringIO()
    with house_style(), mpl.rc_context({"svg.fonttype": "none"}):
        draw().savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = _NAMED.sub(rf"\g<1>{name}-", svg)
    for colour, variable in _VARIABLES.items():
        svg = re.sub(colour, f"var({variable}, {colour})", svg, flags=re.IGNORECASE)
    return svg.replace("<svg ", '<svg aria-hidden="true" ', 1)
