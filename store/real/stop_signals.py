"""Stop signals: writes SIGTERM and SIGINT to a pipe, which a waiting task reads.

A Python signal handler is not enough: it runs in the main thread, which does not wake up if the kernel delivers the
signal to another thread. Blocked signals with sigwait are not enough: threads that libraries started earlier do not
block them.
"""

import os
import signal
import threading
from collections.abc import Collection
from contextlib import suppress

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PIPE_BYTES = 1 << 16
_SIGNALLED = 128
"""As in shells, the exit code is this number plus the signal number."""
_STOP = 0
"""The byte in the pipe if the process stops itself. No signal has this number."""


class StopSignals:
    """Handles the signals that end a process, inside a `with` block in the main thread."""

    def __enter__(self) -> "StopSignals":
        self._reader, self._writer = os.pipe()
        self._is_watched = False
        """Whether a thread reads the pipe. If so, this thread closes the read end."""
        os.set_blocking(self._writer, False)
        self._before_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        # empty handlers, because Python writes the signal number to the pipe
        self._before = {each: signal.signal(each, lambda number, frame: None) for each in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._before_fd)
        os.close(self._writer)  # the watching thread then ends
        if not self._is_watched:
            os.close(self._reader)

    def wait(self) -> None:
        """Wait for the first signal. A signal after the return ends the process at once."""
        self._read_wanted((*_SIGNALS, _STOP))
        self._empty_pipe()
        threading.Thread(target=self._end_at_next_signal, daemon=True).start()
        self._is_watched = True

    def stop(self) -> None:
        """Make `wait` return; no effect after its return. Thread-safe."""
        os.write(self._writer, bytes([_STOP]))

    def _read_wanted(self, wanted: Collection[int] = _SIGNALS) -> int:
        """Return the next wanted byte, or 0 at the end of the pipe."""
        while data := os.read(self._reader, 1):
            if data[0] in wanted:  # Python also writes other signals that have handlers
                return data[0]
        return 0

    def _empty_pipe(self) -> None:
        """Drop repeated signals: a supervisor may send several during a long start."""
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
