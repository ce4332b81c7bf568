"""Random walk: every runnable task is as likely as any other, for stretches of random length."""

from collections.abc import Sequence
from math import log

from ..choices import Stream
from ..task import SimTask


class RandomWalk:
    """A uniform choice at the end of each stretch; stretches are geometric around mean_stretch points."""

    name = "random-walk"
    interrupts_on_wake = False

    def __init__(self, stream: Stream, mean_stretch: int) -> None:
        if mean_stretch < 1:
            raise ValueError(f"mean_stretch: expected at least 1, found {mean_stretch}")
        self._draw = stream.unrecorded
        # Inverse transform: of a stretch, all points but the one that asks again are free.
        self._scale = 1.0 / log(1.0 - 1.0 / mean_stretch) if mean_stretch > 1 else 0.0

    def choose(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Return any index."""
        return int(self._draw() * len(runnable))

    def stretch(self, chosen: SimTask, step: int) -> int:
        """Draw a geometric number, 0 or more, mean_stretch - 1 on average."""
        return int(log(1.0 - self._draw()) * self._scale)
