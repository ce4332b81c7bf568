"""Stop signals: SIGTERM and SIGINT as bytes in a pipe. They end nothing by themselves; a waiting task reads them.

A handler of Python's would not do: it runs in the main thread, which nobody wakes if the system gives the signal to
another thread. Nor would blocking them do: threads that libraries have started by then do not block them.
"""

import os
import signal
import threading
from collections.abc import Collection
from contextlib import suppress

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PIPE_BYTES = 1 << 16
_SIGNALLED = 128
"""Above the number of the signal that ended a process, as shells say it."""
_STOP = 0
"""A byte that no signal has: the process itself wants to end."""


class StopSignals:
    """The signals that end a process, from `__enter__` on. For the main thread."""

    def __enter__(self) -> "StopSignals":
        self._reader, self._writer = os.pipe()
        self._is_watched = False
        """Whether a thread reads the pipe, which then closes its end of it."""
        os.set_blocking(self._writer, False)
        self._before_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        # Handlers that do nothing: the byte in the pipe says it all.
        self._before = {each: signal.signal(each, lambda number, frame: None) for each in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._before_fd)
        os.close(self._writer)  # which ends the watching
        if not self._is_watched:
            os.close(self._reader)

    def wait(self) -> None:
        """Wait for the first; all that have come until it returns count as one. The next ends the process at once."""
        self._next((*_SIGNALS, _STOP))
        self._forget_the_others()
        threading.Thread(target=self._end_at_the_next, daemon=True).start()
        self._is_watched = True

    def stop(self) -> None:
        """Have `wait` return as a signal does. It changes nothing if that has returned before. Any task may call."""
        os.write(self._writer, bytes([_STOP]))

    def _next(self, wanted: Collection[int] = _SIGNALS) -> int:
        """Return the next signal, waiting for it; 0 if there will be none."""
        while data := os.read(self._reader, 1):
            if data[0] in wanted:  # and not another that has a handler
                return data[0]
        return 0

    def _forget_the_others(self) -> None:
        """Read what lies in the pipe: a supervisor that lost patience with a long start may have asked twice."""
        os.set_blocking(self._reader, False)
        with suppress(BlockingIOError):
            while os.read(self._reader, _PIPE_BYTES):
                pass
        os.set_blocking(self._reader, True)

    def _end_at_the_next(self) -> None:
        number = self._next()
        if number:
            os._exit(_SIGNALLED + number)
        os.close(self._reader)
