"""The pictures of the pages, as SVG; without matplotlib, a line that says how to get them."""

from collections.abc import Callable, Sequence
from typing import Any

from ...store.errors import brings
from .render import Picture

_HINT = f"Here would be a picture: {brings('plot')} has what draws it."
Row = dict[str, Any]


def detection_picture(seeds: Sequence[int], mutants: int) -> Picture:
    """Draw how many of some mutants were found within how many seeds; seeds: what each that was found took."""

    def draw() -> str:
        from ..plotting import detection_figure, inline_svg

        return inline_svg(lambda: detection_figure(seeds, mutants), "detection")

    return _picture(draw)


def latency_picture(rows: Sequence[Row]) -> Picture:
    """Draw latencies of puts; rows: as `reports.analysis.put_latency` has them."""

    def draw() -> str:
        from ..plotting import inline_svg, put_latency_figure

        return inline_svg(lambda: put_latency_figure(rows), "latency")

    return _picture(draw)


def _picture(draw: Callable[[], str]) -> Picture:
    try:
        return Picture(draw())
    except ImportError:
        return Picture("", _HINT)
