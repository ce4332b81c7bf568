"""Lines for whoever runs a broker: never more than can be read, whatever clients do to provoke them."""

from collections.abc import Callable

from ..world import World

LINES_MAX = 20
WINDOW_MS = 10_000
LINE_CHARACTERS_MAX = 500


class OperatorLog:
    """Hands on at most LINES_MAX lines in each WINDOW_MS, and says how many it left out. Any task may tell."""

    def __init__(self, world: World, write: Callable[[str], None]) -> None:
        self._now_ns = world.clock.monotonic_ns
        self._lock = world.tasks.lock("operator log")
        self._write = write
        self._window_ns = self._now_ns()
        self._lines = 0

    def tell(self, line: str) -> None:
        """Hand on a line, without what could move a terminal's cursor, or leave it out."""
        with self._lock:
            if self._now_ns() - self._window_ns >= WINDOW_MS * 1_000_000:
                self._end_window()
            self._lines += 1
            if self._lines <= LINES_MAX:
                self._write("".join(c if c.isprintable() else "?" for c in line[:LINE_CHARACTERS_MAX]))

    def close(self) -> None:
        """Say what was left out last."""
        with self._lock:
            self._end_window()

    def _end_window(self) -> None:
        if self._lines > LINES_MAX:
            self._write(f"... and {self._lines - LINES_MAX} lines more")
        self._window_ns = self._now_ns()
        self._lines = 0
