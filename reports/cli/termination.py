"""Immediate termination: makes SIGINT and SIGTERM print one line and exit with 128 + number.

Commands replace these handlers, see `sim.interruption`. The module imports little, because the handlers are set before
the first slow import.
"""

import os
import signal
from types import FrameType
from typing import NoReturn

LINE = "tornlog: interrupted"


def end_at_once_on_stop_signals() -> None:
    """Install handlers that exit at once. Use these handlers only while there is nothing to clean up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end_at_once)


def _end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, f"{LINE}\n".encode())
    os._exit(128 + number)  # an exception would be printed as a traceback if it interrupts an import
