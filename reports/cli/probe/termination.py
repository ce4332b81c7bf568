"""Termination: SIGTERM ends a command as Ctrl-C does, so that no process and no directory of it is left."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import NoReturn

import typer

EXIT_TERMINATED = 143
"""As a shell has it for a process that SIGTERM ends."""


class _TerminatedError(KeyboardInterrupt):
    """SIGTERM has come. Nothing on the way treats it as an error of its own, for nothing does so with Ctrl-C."""


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Take SIGTERM inside a `with` block, which it ends, and the command with it. Only the main thread gets signals."""
    if current_thread() is not main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # timeout(1) sends two, and nothing is to keep us from tidying up
        raise _TerminatedError

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except _TerminatedError as error:
        raise typer.Exit(EXIT_TERMINATED) from error
    finally:
        signal.signal(signal.SIGTERM, before)
