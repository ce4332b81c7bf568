"""Stop signals: SIGTERM and SIGINT as bytes in a pipe, which a waiting task reads.

A Python handler is not enough: it runs in the main thread, which does not wake up if the kernel delivers the signal to
another thread. Blocked signals are not enough either: threads that libraries started earlier do not block signals.
"""

import os
import signal
import threading
from collections.abc import Collection
from contextlib import suppress

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PIPE_BYTES = 1 << 16
_SIGNALLED = 128
"""Shells use this number plus the signal number as the exit code."""
_STOP = 0
"""The byte for a stop requested by the process itself. No signal has this number."""


class StopSignals:
    """Handles the signals that end a process, from `__enter__` on. For the main thread."""

    def __enter__(self) -> "StopSignals":
        self._reader, self._writer = os.pipe()
        self._is_watched = False
        """Whether a thread reads the pipe. The thread that reads the pipe then closes the read end."""
        os.set_blocking(self._writer, False)
        self._before_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        # empty handlers: the byte in the pipe is enough
        self._before = {each: signal.signal(each, lambda number, frame: None) for each in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._before_fd)
        os.close(self._writer)  # this ends the watching thread
        if not self._is_watched:
            os.close(self._reader)

    def wait(self) -> None:
        """Signals before the return count as one. A later signal ends the process at once."""
        self._read_wanted((*_SIGNALS, _STOP))
        self._empty_pipe()
        threading.Thread(target=self._end_at_next_signal, daemon=True).start()
        self._is_watched = True

    def stop(self) -> None:
        """Make `wait` return. No effect after `wait` has returned. Any task may call this."""
        os.write(self._writer, bytes([_STOP]))

    def _read_wanted(self, wanted: Collection[int] = _SIGNALS) -> int:
        """Return 0 at the end of the pipe."""
        while data := os.read(self._reader, 1):
            if data[0] in wanted:  # other signals may have handlers too
                return data[0]
        return 0

    def _empty_pipe(self) -> None:
        """A supervisor may have sent a second signal during a long start."""
        os.set_blocking(self._reader, False)
        with suppress(BlockingIOError):
            while os.read(self._reader, _PIPE_BYTES):
                pass
        os.set_blocking(self._reader, True)

    def _end_at_next_signal(self) -> None:
        number = self._read_wanted()
        if number:
            os._exit(_SIGNALLED + number)
        os.close(self._reader)
