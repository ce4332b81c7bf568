"""Termination: SIGTERM, Ctrl-C and a time limit end a probe early. No process and no directory of it is left."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

import typer

from ....faults.probe.early_end import EARLY_END, EndedEarlyError
from ..options import EXIT_HARNESS

_TERMINATED, _INTERRUPTED = "SIGTERM", "Ctrl-C"
_EXIT_CODES = {_TERMINATED: 128 + signal.SIGTERM, _INTERRUPTED: 128 + signal.SIGINT}
"""As a shell reports processes that these signals end. A time limit has none."""


def exit_code(reason: str) -> int:
    """Return the exit code of a probe that a reason has ended before its first finding."""
    return _EXIT_CODES.get(reason, EXIT_HARNESS)


@contextmanager
def ended_early(seconds: float | None = None, limit: str = "") -> Iterator[None]:
    """Take SIGTERM, SIGINT and a time limit inside a `with` block as requests to end, in the main thread.

    limit: the words for the time limit. A second Ctrl-C is a KeyboardInterrupt at any place. Exits if the block has no
    result at the end.
    """
    if current_thread() is not main_thread():
        yield
        return

    def end(number: int, _: FrameType | None) -> None:
        again = signal.default_int_handler if number == signal.SIGINT else signal.SIG_IGN
        signal.signal(number, again)  # timeout(1) sends two SIGTERM, and the second must not disturb the clean-up
        EARLY_END.ask(reasons[number])

    reasons: dict[int, str] = {signal.SIGTERM: _TERMINATED, signal.SIGINT: _INTERRUPTED, signal.SIGALRM: limit}
    before = {number: signal.signal(number, end) for number in reasons}
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds or 0)
        yield
    except EndedEarlyError as ended:
        from ..console import print_error  # rich is slow to import, and this is rare

        print_error(f"ended by {ended} before there was any result")
        raise typer.Exit(exit_code(str(ended))) from ended
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        EARLY_END.reason = ""
