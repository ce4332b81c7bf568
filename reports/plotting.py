"""Plotting: defines the style of figures, and writes PNG, SVG, CSV and inline SVG.

Categories have the colours of Okabe and Ito ("Color Universal Design", 2008); increasing values have shades of blue.
The same figure gives the same bytes. Inline SVG keeps text as text elements, and uses the light or dark colours of the
page.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from .quantities import duration_text

KINDS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
STEPS = ("#9ecae1", "#4292c6", "#08519c", "#08306b")
INK, QUIET, _GRID = "#1f2328", "#59636e", "#d8dee4"
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
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "figure.titlesize": 13,
    "figure.titleweight": "bold",
    "savefig.dpi": 160,
    "svg.hashsalt": "tornlog",  # makes the element ids reproducible
    "svg.fonttype": "path",
}


@contextmanager
def _house_style() -> Iterator[None]:
    mpl.use("Agg")
    with mpl.rc_context(_SETTINGS):
        yield


def colour_steps(count: int) -> Sequence[str]:
    """Return `count` colours from light to dark. Readers can distinguish at most 4 easily."""
    if count <= 1:
        return STEPS[2:3]
    return [STEPS[round(number * (len(STEPS) - 1) / (count - 1))] for number in range(count)]


def label_durations(axis: Axis) -> None:
    axis.set_major_locator(LogLocator(10, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda us, _: duration_text(us)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def save_figure(draw: Callable[[], Figure], directory: Path, name: str) -> list[Path]:
    directory.mkdir(parents=True, exist_ok=True)
    png, svg = directory / f"{name}.png", directory / f"{name}.svg"
    with _house_style():
        figure = draw()
        figure.savefig(png, metadata={"Software": None})
        figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return [png, svg]


def save_table(header: Sequence[str], rows: Iterable[Sequence[Any]], directory: Path, name: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(header)
        table.writerows(rows)
    return path


_VARIABLES = {INK: "--ink", QUIET: "--soft", _GRID: "--rule", KINDS[0]: "--sync"} | {
    colour: f"--step-{number}" for number, colour in enumerate(STEPS)
}
"""Colour -> CSS custom property of the page. Without this property, the page shows the colour itself."""
_NAMED = re.compile(r'(\bid="|url\(#|href="#)')


def inline_svg(draw: Callable[[], Figure], name: str) -> str:
    """Return a figure as SVG. name: an identifier that is unique on the page."""
    text = StringIO()
    with _house_style(), mpl.rc_context({"svg.fonttype": "none"}):
        draw().savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = _NAMED.sub(rf"\g<1>{name}-", svg)
    for colour, variable in _VARIABLES.items():
        svg = re.sub(colour, f"var({variable}, {colour})", svg, flags=re.IGNORECASE)
    return svg.replace("<svg ", '<svg aria-hidden="true" ', 1)


def detection_figure(seeds: Sequence[int], mutants: int) -> Figure:
    ordered = sorted(seeds)
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.step([1, *ordered], [0, *range(1, len(ordered) + 1)], where="post", color=KINDS[0])
    axes.axhline(mutants, color=QUIET, linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate("all of them", (1, mutants), xytext=(2, -3), textcoords="offset points", va="top")
    axes.set_xscale("log")
    axes.set_xlim(1, max(10, ordered[-1]) * 1.1)
    axes.set_ylim(0, mutants * 1.06)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("seeds")
    axes.set_ylabel("mutants found")
    return figure


_LEAST_US = 1
"""Left end of the logarithmic axis. Puts with a latency of 0 are drawn there."""


def put_latency_figure(rows: Sequence[dict[str, Any]]) -> Figure:
    """rows: the put latencies of `pipeline.analysis`."""
    disks = sorted({row["disk"] for row in rows})
    producers = sorted({row["producers"] for row in rows})
    colours = dict(zip(producers, colour_steps(len(producers)), strict=True))
    figure = Figure(figsize=(9, 1.3 + 0.14 * len(disks) * (len(producers) + 1)), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    pitch = 1 / (len(producers) + 1)
    for panel, sync_flush in zip(panels, (True, False), strict=True):
        panel.set_title("sync flush" if sync_flush else "async flush")
        panel.set_xscale("log")
        for row in rows:
            if row["sync_flush"] is sync_flush:
                at = disks.index(row["disk"]) + (producers.index(row["producers"]) + 1) * pitch - 0.5
                p50, p99 = (max(row[name], _LEAST_US) for name in ("p50_us", "p99_us"))
                panel.plot([p50, p99], [at, at], color=colours[row["producers"]], linewidth=2.2)
                panel.plot([p50], [at], "o", color=colours[row["producers"]], markersize=4)
        panel.set_yticks(range(len(disks)), disks)
        panel.grid(visible=False, axis="y")
        label_durations(panel.xaxis)
        panel.set_xlabel("p50 (dot) to p99, virtual time")
    panels[0].set_ylim(len(disks) - 0.5, -0.5)
    names = [f"{count} producer{'' if count == 1 else 's'}" for count in producers]
    handles = [panels[0].plot([], [], color=colours[count], linewidth=2.2)[0] for count in producers]
    figure.legend(handles, names, loc="outside lower right", ncols=len(producers))
    return figure
