"""Operator log: few lines for a person to read, whatever provokes them, written without holding up a caller.

Whoever emits a line goes on at once; a task of its own writes. So a terminal that is stopped, or a pipe that nobody
reads, holds up no client.
"""

from collections import deque
from collections.abc import Callable
from enum import IntEnum

from ..world import Task, World

LINES_MAX = 20
WINDOW_MS = 10_000
LINE_CHARACTERS_MAX = 500
WAITING_MAX = 200
"""Lines that wait to be written; more are left out."""
CLOSE_MS = 1_000
"""How long the last lines may take."""


class Level(IntEnum):
    """How much a line matters."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


class LogLine(str):
    """A line with a level; any other text is of level INFO."""

    __slots__ = ("level",)
    level: Level

    @classmethod
    def of(cls, level: Level, text: str) -> "LogLine":
        """Return a text as a line of a level."""
        line = cls(text)
        line.level = level
        return line


def level_of(line: str) -> Level:
    """Return a line's level."""
    return line.level if isinstance(line, LogLine) else Level.INFO


def debug(text: str) -> LogLine:
    """Return a line of what is refused to one client, which only matters to who looks for it."""
    return LogLine.of(Level.DEBUG, text)


def warning(text: str) -> LogLine:
    """Return a line of what an operator should see to."""
    return LogLine.of(Level.WARNING, text)


def failure(text: str) -> LogLine:
    """Return a line of level ERROR, of what the broker itself cannot do any more."""
    return LogLine.of(Level.ERROR, text)


Emit = Callable[[str], None]
"""Takes a line that an operator should know of, from any task."""


class OperatorLog:
    """Hands on at most LINES_MAX lines in each WINDOW_MS, and says how many it left out. Any task may emit.

    A line that cannot be written is left out, too.
    """

    def __init__(self, world: World, write: Emit, level: Level = Level.INFO) -> None:
        """level: the least that is handed on; lines below it count nowhere."""
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
        """Begin to write what is emitted."""
        self._task = self._tasks.spawn("operator log", self._run)

    def emit(self, line: str) -> None:
        """Hand on a line, without what could move a terminal's cursor, or leave it out. Never waits."""
        level = level_of(line)
        if level < self._level:
            return
        with self._lock:
            if self._now_ns() - self._window_ns >= WINDOW_MS * 1_000_000:
                self._end_window()
            if self._lines == LINES_MAX or len(self._waiting) >= WAITING_MAX:
                self._left_out += 1
                return
            self._lines += 1
            shown = "".join(c if c.isprintable() else "?" for c in line[:LINE_CHARACTERS_MAX])
            self._waiting.append(LogLine.of(level, shown))
        self._signal.notify()

    def close(self) -> bool:
        """Write what was emitted, and how much was left out last; False if that took longer than it may."""
        with self._lock:
            self._end_window()
            self._is_closing = True
        self._signal.notify()
        return self._task is None or self._task.join(CLOSE_MS)

    def _end_window(self) -> None:
        if self._left_out:
            self._waiting.append(warning(f"... and {self._left_out} lines more"))
        self._window_ns = self._now_ns()
        self._lines = self._left_out = 0

    def _run(self) -> None:
        while True:
            self._signal.wait(None)
            is_closing = self._is_closing  # before the last look, so that nothing emitted until then is missed
            while self._waiting:
                try:
                    self._write(self._waiting.popleft())
                except OSError:  # a full disk, say, which may have room again
                    with self._lock:
                        self._left_out += 1
            if is_closing:
                return
