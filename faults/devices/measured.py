"""Storage as it was measured: each sync takes as long as one of the measured ones of about as many blocks."""

from collections.abc import Mapping, Sequence

from ...sim.choices import Stream
from .spread import Spread
from .storage import Run


class MeasuredStorage:
    """Storage whose syncs were timed, by how many blocks they wrote.

    Syncs that overlap are taken to follow one another, as on a file system with one journal.
    """

    def __init__(self, stream: Stream, syncs: Mapping[int, Spread]) -> None:
        """Make it from spreads by the number of blocks; at least one."""
        if not syncs:
            raise ValueError("expected syncs of at least one number of blocks")
        self._stream = stream
        self._syncs = sorted(syncs.items())
        self._free = 0
        self._idle_ns = 0

    def sync(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when a sync of these dirty blocks ends, begun at now_ns."""
        blocks = sum(count for _, count in runs)
        spread = min(self._syncs, key=lambda entry: abs(entry[0] - blocks))[1]
        self._idle_ns = max(now_ns, self._idle_ns) + spread.draw(self._stream, "sync")
        return self._idle_ns

    def place(self, blocks: int) -> int:
        """Return the first of so many blocks in a row."""
        self._free += blocks
        return self._free - blocks
