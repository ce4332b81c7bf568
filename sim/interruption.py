"""Interruption: ends work at a signal or time limit and keeps its results.

A signal handler records the first request. The request interrupts only an `interrupts_allowed` block, whose results are
lost. Code that adds up results is outside of these blocks. A second SIGINT raises KeyboardInterrupt anywhere. A second
SIGTERM has no effect, because timeout(1) sends two.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_REASONS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
_Result = TypeVar("_Result")


class EndedEarlyError(KeyboardInterrupt):
    """A block was interrupted. A BaseException, so that `except Exception` does not catch it."""


class Interruption:
    """A request to end the work. Invariant: the first request raises an exception only inside `interrupts_allowed`."""

    def __init__(self, limit: str = "") -> None:
        self.reason = ""
        self.exit_code = 128 + signal.SIGINT
        self._reasons = {**_REASONS, signal.SIGALRM: limit}
        self._is_breakable = False

    @property
    def is_requested(self) -> bool:
        return bool(self.reason)

    @property
    def was_by_signal(self) -> bool:
        return self.reason in _REASONS.values()

    def handle_signal(self, number: int, frame: FrameType | None) -> None:
        insists = self.is_requested and number == signal.SIGINT
        if not self.is_requested:
            self.reason, self.exit_code = self._reasons[signal.Signals(number)], 128 + number
        breaks_off, self._is_breakable = self._is_breakable, False  # a second SIGTERM must not stop the clean-up
        if insists:
            raise KeyboardInterrupt
        if breaks_off:
            raise EndedEarlyError(self.reason)

    def check(self) -> None:
        if self.is_requested:
            raise EndedEarlyError(self.reason)

    @contextmanager
    def interrupts_allowed(self) -> Iterator[None]:
        was_breakable = self._is_breakable
        self._is_breakable = True  # set before the check, or a signal after the check would be missed
        try:
            self.check()
            yield
        finally:
            self._is_breakable = was_breakable and not self.is_requested

    def result_unless_requested(self, work: Callable[[], _Result]) -> _Result | None:
        """Return the result of work. After a request, returns None and ignores exceptions of the work."""
        try:
            with self.interrupts_allowed():
                result = work()
        except BaseException:
            if self.is_requested:
                return None
            raise
        return None if self.is_requested else result


_entered = [Interruption()]
"""Interruptions of active `interruptible` blocks. The first is a placeholder that never has a request."""


def current_interruption() -> Interruption:
    return _entered[-1]


@contextmanager
def interruptible(seconds: float | None = None, limit: str = "") -> Iterator[Interruption]:
    """Handle the stop signals and a time limit inside a `with` block.

    limit: the `reason` after the time limit. No effect outside the main thread, because other threads get no signals.
    """
    interruption = Interruption(limit)
    taken = (*STOP_SIGNALS, *([signal.SIGALRM] if seconds is not None else []))
    before = {}
    try:
        before = {number: signal.signal(number, interruption.handle_signal) for number in taken}
    except ValueError:  # raised outside the main thread
        yield interruption
        return
    _entered.append(interruption)
    try:
        if seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, seconds)
        yield interruption
    finally:
        if seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        _entered.pop()
