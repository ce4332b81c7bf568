"""Log time: the clock for store times and delayed delivery; it never steps back.

Log time is normally the wall-clock time. If someone sets the wall clock back, or a record has a corrupt store time in
the future, log time advances at half speed until the wall clock catches up. So a message is never delivered before its
delay, and always within twice its delay.
"""

from ..marks import count_mark
from ..world import Clock

_NS_PER_CAUGHT_UP_MS = 2 * 1_000_000  # log time runs at half speed while the wall clock catches up
_LONG_MAX = (1 << 63) - 1  # maximum of a record's storeTimestamp


class LogTime:
    """The log time of one store."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = (0, clock.monotonic_ns())
        """(log time, monotonic time in ns at that moment): one tuple, because tasks read both without the put lock."""

    def continue_after(self, last_store_timestamp_ms: int) -> None:
        self._since = (last_store_timestamp_ms, self._clock.monotonic_ns())

    def now_ms(self) -> int:
        return max(self._clock.now_ms(), self._lower_bound_ms(self._clock.monotonic_ns()))

    def next_ms(self) -> int:
        """Return the next store time, never less than the previous one. The caller must hold the put lock."""
        now_ms, now_ns = self._clock.now_ms(), self._clock.monotonic_ns()
        since_ms, since_ns = self._since
        least_ms = since_ms + (now_ns - since_ns) // _NS_PER_CAUGHT_UP_MS
        if now_ms < least_ms:
            count_mark("clock stepped back")
            return min(least_ms, _LONG_MAX)
        self._since = (now_ms, now_ns)
        return now_ms

    def _lower_bound_ms(self, now_ns: int) -> int:
        since_ms, since_ns = self._since
        return min(since_ms + (now_ns - since_ns) // _NS_PER_CAUGHT_UP_MS, _LONG_MAX)
