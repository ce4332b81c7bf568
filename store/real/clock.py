"""The computer's own clocks."""

import time


class RealClock:
    """Wall and monotonic clock of the operating system."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return the wall clock in ms since 1970. It may step back."""
        return time.time_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)
    """Return ns since some fixed moment. It never steps back. No call of ours around it: every put asks twice."""

    def utc_offset_ms(self) -> int:
        """Return how far this process's local time is ahead of UTC now, daylight saving included."""
        return time.localtime().tm_gmtoff * 1000
