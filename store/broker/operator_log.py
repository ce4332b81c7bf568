"""Operator log: a task that writes a limited number of lines for the operator.

Callers do not wait for the output, so a stopped terminal or a full pipe delays no client.
"""

from collections import deque
from collections.abc import Callable
from enum import IntEnum

from ..world import Task, World

LINES_MAX = 20
WINDOW_MS = 10_000
LINE_CHARACTERS_MAX = 500
WAITING_MAX = 200
"""Maximum number of queued lines. The log drops and counts further lines."""
CLOSE_MS = 1_000


class LineLevel(IntEnum):
    """Severity of a line."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


class LogLine(str):
    """A line with a level. A plain string has the level INFO."""

    __slots__ = ("level",)
    level: LineLevel

    @classmethod
    def with_level(cls, level: LineLevel, text: str) -> "LogLine":
        line = cls(text)
        line.level = level
        return line


def level_of(line: str) -> LineLevel:
    return line.level if isinstance(line, LogLine) else LineLevel.INFO


def debug_line(text: str) -> LogLine:
    """Return a line about a refused request."""
    return LogLine.with_level(LineLevel.DEBUG, text)


def warning_line(text: str) -> LogLine:
    """Return a line about a condition that an operator should correct."""
    return LogLine.with_level(LineLevel.WARNING, text)


def failure_line(text: str) -> LogLine:
    """Return a line about a failure of the broker."""
    return LogLine.with_level(LineLevel.ERROR, text)


Emit = Callable[[str], None]
"""Writes a line to the operator log. Thread-safe."""


class OperatorLog:
    """Writes at most LINES_MAX lines per WINDOW_MS, then the number of dropped lines. Thread-safe.

    A line that the log cannot write counts as dropped.
    """

    def __init__(self, world: World, write: Emit, level: LineLevel = LineLevel.INFO) -> None:
        """The log ignores lines below `level`, and does not count them."""
        self._now_ns = world.clock.monotonic_ns
        self._tasks = world.tasks
        self._lock = world.tasks.lock("operator log")
        self._signal = world.tasks.signal("operator log")
        self._write = write
        self._level = level
        self._waiting: deque[str] = deque()
        self._window_ns = self._now_ns()
        self._lines = 0
        self._left_out = 0
        self._is_closing = False
        self._task: Task | None = None

    def start(self) -> None:
        self._task = self._tasks.spawn("operator log", self._write_until_closed)

    def emit(self, line: str) -> None:
        """Queue a line or drop it, without blocking. Control characters become question marks."""
        level = level_of(line)
        if level < self._level:
            return
        with self._lock:
            if self._now_ns() - self._window_ns >= WINDOW_MS * 1_000_000:
                self._end_window()
            if self._lines == LINES_MAX or len(self._waiting) >= WAITING_MAX:
                self._left_out += 1
                return
            self._lines = lines = self._lines + 1
            assert lines <= LINES_MAX, lines
            shown = "".join(c if c.isprintable() else "?" for c in line[:LINE_CHARACTERS_MAX])
            self._waiting.append(LogLine.with_level(level, shown))
        self._signal.notify()

    def close(self) -> bool:
        """Write the queued lines and the number of dropped lines. Return False after CLOSE_MS."""
        with self._lock:
            self._end_window()
            self._is_closing = True
        self._signal.notify()
        return self._task is None or self._task.join(CLOSE_MS)

    def _end_window(self) -> None:
        if self._left_out:
            self._waiting.append(warning_line(f"... and {self._left_out} more lines"))
        self._window_ns = self._now_ns()
        self._lines = self._left_out = 0

    def _write_until_closed(self) -> None:
        while True:
            self._signal.wait(None)
            is_closing = self._is_closing  # read before the queue, so that the last iteration writes every line
            while self._waiting:
                try:
                    self._write(self._waiting.popleft())
                except OSError:  # for example a full disk
                    with self._lock:
                        self._left_out += 1
            if is_closing:
                return
