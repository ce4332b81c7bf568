"""The grid: a row for each disk; each way to flush a colour, each number of producers a shade of it."""

from collections.abc import Sequence

from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...plotting.style import KINDS
from .curve import curve_of
from .distribution import distribution_axes
from .grid import LatencySeries
from .setup import FLUSHES

_US_MIN = 5.0
FLUSH_TITLES = {"sync": "sync flush", "async": "async flush", "pool": "async flush, transient pool"}
_COLOURS = dict(zip(FLUSHES, KINDS, strict=False))
_WIDTHS = {"sync": 1.8, "async": 5.0, "pool": 1.4}
"""What does not wait for a disk takes the same time with and without the pool: the one is drawn inside the other."""
_PALEST = 0.35
_NOT_MODELLED = (
    "Under async flush a put waits for no disk here.\n"
    "A kernel that makes writers wait for write-back (balance_dirty_pages), and other processes, are not modelled:\n"
    "loaded machines, measured by `--disk here`, had an async p99 of 130 to 526 ms."
)


def grid_figure(measured: Sequence[LatencySeries]) -> Figure:
    """Draw every series. The caller is inside `house_style`."""
    disks = list(dict.fromkeys(one.disk for one in measured))
    producers = sorted({one.setup.producers for one in measured})
    slowest_us = max(max(one.series.latencies_ns) for one in measured) / 1_000
    share_min = 1 / min(len(one.series.latencies_ns) for one in measured)
    figure = Figure(figsize=(9, 2.4 + 2.7 * len(disks)), layout="constrained")
    rows = figure.subplots(len(disks), 1, squeeze=False, sharex=True)
    for (axes,), disk in zip(rows, disks, strict=True):
        mine = [one for one in measured if one.disk == disk]
        distribution_axes(axes, _US_MIN, slowest_us * 1.5, max(share_min, 1e-4))
        axes.set_title(disk)
        axes.set_ylabel("percentile")
        for flush in FLUSHES:
            for one in (one for one in mine if one.setup.flush == flush):
                curve = curve_of(one.series.latencies_ns)
                colour = _shade(_COLOURS[flush], producers.index(one.setup.producers), len(producers))
                axes.plot(curve.us, curve.share, color=colour, lw=_WIDTHS[flush])
        axes.text(0.99, 0.97, _offered(mine), transform=axes.transAxes, ha="right", va="top", fontsize=8)
    rows[-1][0].set_xlabel("latency of a put")
    shades = ", ".join(str(number) for number in producers)
    order = " (light to dark)" if len(producers) > 1 else ""
    figure.legend(
        [Line2D([], [], color=_COLOURS[flush], lw=_WIDTHS[flush]) for flush in FLUSHES],
        [FLUSH_TITLES[flush] for flush in FLUSHES],
        loc="outside lower left",
        ncols=len(FLUSHES),
        title=f"{shades} producers{order}. {_NOT_MODELLED}",
        title_fontsize=8,
        alignment="left",
    )
    figure.suptitle(
        f"How long a put of {_sizes(measured)} takes, by flush, disk and producers", x=0.01, ha="left"
    )
    return figure


def _offered(mine: Sequence[LatencySeries]) -> str:
    """Return the load that was offered on one disk, by flush, from the fewest producers to the most."""
    lines = ["offered, puts/s"]
    for flush in FLUSHES:
        rates = [one.setup.rate for one in mine if one.setup.flush == flush]
        if rates:
            same = round(min(rates)) == round(max(rates))
            span = f"{rates[0]:,.0f}" if same else f"{min(rates):,.0f} to {max(rates):,.0f}"
            lines.append(f"{flush} {span}")
    return "\n".join(lines)


def _sizes(measured: Sequence[LatencySeries]) -> str:
    """Return how long the bodies are."""
    return " or ".join(f"{size:,} bytes" for size in sorted({one.setup.body_bytes for one in measured}))


def _shade(colour: str, step: int, steps: int) -> tuple[float, float, float]:
    """Return a colour mixed with white: the last step is the colour itself."""
    strength = 1.0 if steps == 1 else _PALEST + (1 - _PALEST) * step / (steps - 1)
    red, green, blue = (1 - strength * (1 - part) for part in to_rgb(colour))
    return red, green, blue
