"""Storage as it was measured: its syncs take as long as those that were timed, one after the other."""

from collections.abc import Sequence
from itertools import cycle

from .storage import Run


class MeasuredStorage:
    """Storage whose syncs were timed. Bad moments of a disk come in clusters, so their order is kept.

    Syncs that overlap are taken to follow one another, as on a file system with one journal.
    """

    def __init__(self, syncs_ns: Sequence[int]) -> None:
        """syncs_ns: what syncs took, in the order in which they were made; at least one."""
        if not syncs_ns:
            raise ValueError("expected the times of syncs, at least one")
        self._syncs_ns = cycle(syncs_ns)
        self._usual_ns: int | None = sorted(syncs_ns)[len(syncs_ns) // 2]
        self._free = 0
        self._idle_ns = 0

    def begin(self) -> None:
        """Let the next sync be the first that was timed. Until then each takes the usual time."""
        self._usual_ns = None

    def sync(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when a sync ends, begun at now_ns, whatever it writes."""
        took_ns = next(self._syncs_ns) if self._usual_ns is None else self._usual_ns
        self._idle_ns = max(now_ns, self._idle_ns) + took_ns
        return self._idle_ns

    def place(self, blocks: int) -> int:
        """Return the first of so many blocks in a row."""
        self._free += blocks
        return self._free - blocks
