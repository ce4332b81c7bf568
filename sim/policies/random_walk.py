"""Random walk: every runnable task is as likely as any other, for stretches of random length."""

from collections.abc import Sequence
from functools import lru_cache
from math import log

from ..choices import Stream
from ..task import SimTask

_QUANTILES = 4096


class RandomWalk:
    """A uniform choice at the end of each stretch; stretches are geometric around mean_stretch points."""

    name = "random-walk"
    interrupts_on_wake = False

    def __init__(self, stream: Stream, mean_stretch: int) -> None:
        if mean_stretch < 1:
            raise ValueError(f"mean_stretch: expected at least 1, found {mean_stretch}")
        self._draw = stream.unrecorded
        self._stretches = _stretches(mean_stretch)

    def choose(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Return any index."""
        return int(self._draw() * len(runnable))

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Draw a geometric number, 0 or more, mean_stretch - 1 on average."""
        return self._stretches[int(self._draw() * _QUANTILES)]


@lru_cache(maxsize=64)
def _stretches(mean: int) -> tuple[int, ...]:
    """Return quantiles of a geometric distribution, by inverse transform, at the middle of equal parts.

    Of a stretch, all points but the one that asks again are free, hence the mean of mean - 1.
    """
    if mean == 1:
        return (0,) * _QUANTILES
    scale = 1.0 / log(1.0 - 1.0 / mean)
    return tuple(int(log(1.0 - (part + 0.5) / _QUANTILES) * scale) for part in range(_QUANTILES))
