"""Termination at once: SIGINT and SIGTERM end a process with one line on standard error and with 128 + their number.

A command takes both signals itself, see `sim.interruption`. Imports little, because the handlers precede the first slow
import.
"""

import os
import signal
from types import FrameType
from typing import NoReturn

LINE = "tornlog: interrupted"


def end_at_once_on_stop_signals() -> None:
    """End this process at the next stop signal. For a process that has nothing to tidy up yet, or no longer."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end_at_once)


def _end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, f"{LINE}\n".encode())
    os._exit(128 + number)  # an exception would show up as a traceback in the midst of an import
