"""Termination: SIGINT and SIGTERM end a command with one line on standard error and with 128 + their number.

A command that has results so far takes both signals itself, see `scenarios.campaigns.interruption`. Imports little: the
handlers have to be there before the first slow import.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import NoReturn

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
LINE = "tornlog: interrupted"


class StoppedError(KeyboardInterrupt):
    """A stop signal. No code on the way treats it as an error of its own, just as with Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def end_at_once_on_stop_signals() -> None:
    """End this process at the next stop signal. For a process that has nothing to tidy up yet, or no longer."""
    for number in STOP_SIGNALS:
        signal.signal(number, _end_at_once)


def _end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, f"{LINE}\n".encode())
    os._exit(128 + number)  # an exception would show up as a traceback in the midst of an import


@contextmanager
def stop_signals_raised() -> Iterator[None]:
    """Raise StoppedError for the first stop signal inside a `with` block. Only the main thread gets signals."""
    if current_thread() is not main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # timeout(1) sends two, and the second must not stop the clean-up
        raise StoppedError(number)

    before = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
