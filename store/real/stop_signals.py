"""SIGTERM and SIGINT as bytes in a pipe: they end nothing by themselves, and whoever waits for one reads.

A handler of Python's would not do: it runs in the main thread, which nobody wakes if the system gives the signal to
another thread. Nor would blocking them do: threads that libraries have started by then do not block them.
"""

import os
import signal
import threading
from types import TracebackType
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SIGNALLED = 128
"""Above the number of the signal that ended a process, as shells tell it."""


class StopSignals:
    """The signals that end a process, from `__enter__` on. For the main thread."""

    def __enter__(self) -> "StopSignals":
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._before_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._before: dict[signal.Signals, Any] = {each: signal.signal(each, _ignore) for each in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._before_fd)

    def wait(self) -> None:
        """Wait for the first. The next one ends the process at once."""
        self._next()
        threading.Thread(target=self._end_at_the_next, daemon=True).start()

    def _next(self) -> int:
        while (number := os.read(self._reader, 1)[0]) not in _SIGNALS:
            continue  # of other signals that have a handler
        return number

    def _end_at_the_next(self) -> None:
        os._exit(_SIGNALLED + self._next())


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing: the byte in the pipe says it all."""
