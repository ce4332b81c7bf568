"""Log time: what store times are taken from, and what decides when the delayed is due. It never falls nor stands still.

It is the wall clock, unless that is behind: because it was set back, or because a record says that it was stored in the
future, as one whose store time has rotted does. Time then goes on from where it was, at half the pace, until the wall
clock has caught up with it. Nothing is due before its delay has passed, and everything when that has passed twice,
whatever the wall clock says.
"""

from ..marks import hit
from ..world import Clock

_NS_PER_CAUGHT_UP_MS = 2 * 1_000_000  # of a time that the wall clock has to catch up with: it goes at half the pace
_LONG_MAX = (1 << 63) - 1  # what a record can hold


class LogTime:
    """The time of one log."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = (0, clock.monotonic_ns())
        """A log time, and when that was by the clock that measures; one value, for it is read without the put lock."""

    def begin_at(self, last_store_timestamp_ms: int) -> None:
        """Go on from the store time of the last record that was found."""
        self._since = (last_store_timestamp_ms, self._clock.monotonic_ns())

    def now_ms(self) -> int:
        """Return the log time of now, in ms since 1970."""
        return max(self._clock.now_ms(), self._least_ms(self._clock.monotonic_ns()))

    def take_ms(self) -> int:
        """Return the log time of now, to be stored: none falls behind it any more. Called with the put lock held."""
        now_ms, now_ns = self._clock.now_ms(), self._clock.monotonic_ns()
        least_ms = self._least_ms(now_ns)
        if now_ms < least_ms:
            hit("clock fell")
            return least_ms
        self._since = (now_ms, now_ns)
        return now_ms

    def _least_ms(self, now_ns: int) -> int:
        since_ms, since_ns = self._since
        return min(since_ms + (now_ns - since_ns) // _NS_PER_CAUGHT_UP_MS, _LONG_MAX)
