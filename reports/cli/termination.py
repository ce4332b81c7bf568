"""Immediate termination: makes SIGINT and SIGTERM print one line and exit with 128 + number.

Commands later replace these handlers (`sim.interruption`). The module imports little, because the handlers must be set
before slow imports.
"""

import os
import signal
from types import FrameType
from typing import NoReturn

LINE = "tornlog: interrupted"


def end_at_once_on_stop_signals() -> None:
    """Install handlers that exit at once. Use them only while the process needs no clean-up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end_at_once)


def _end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, f"{LINE}\n".encode())
    os._exit(128 + number)  # an exception in an import would be printed as a traceback
