"""How pictures look: quiet axes, colours that the colour-blind can tell apart, durations as people say them.

Colours of kinds are Okabe and Ito's ("Color Universal Design", 2008); those of growing numbers are steps of one blue.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from ..durations import duration

KINDS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
STEPS = ("#9ecae1", "#4292c6", "#08519c", "#08306b")
INK, QUIET, GRID = "#1f2328", "#59636e", "#d8dee4"
_SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": QUIET,
    "axes.edgecolor": QUIET,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "figure.titlesize": 13,
    "figure.titleweight": "bold",
    "savefig.dpi": 160,
    "svg.hashsalt": "tornlog",  # element ids of an SVG are drawn from it: the same picture has the same bytes
    "svg.fonttype": "path",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in this style inside a `with` block, without a screen."""
    mpl.use("Agg")
    with mpl.rc_context(_SETTINGS):
        yield


def steps(count: int) -> Sequence[str]:
    """Return so many colours from light to dark, for numbers that grow; 4 at most differ clearly."""
    if count <= 1:
        return STEPS[2:3]
    return [STEPS[round(number * (len(STEPS) - 1) / (count - 1))] for number in range(count)]


def durations_on(axis: Axis) -> None:
    """Label a logarithmic axis of µs with durations, one a decade."""
    axis.set_major_locator(LogLocator(10, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda us, _: duration(us)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
