"""Interruption: ends work at a signal or time limit and keeps its results.

A signal handler records the first request. The request interrupts only a `breakable` block, whose results are lost;
code that adds up results is outside of such blocks. A second SIGINT raises KeyboardInterrupt anywhere. A second SIGTERM
has no effect, because timeout(1) sends two.
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
    """A block was interrupted. No Exception, so that `except Exception` does not catch it."""


class Interruption:
    """A request to end the work. Invariant: the first request raises only inside `breakable`."""

    def __init__(self, limit: str = "") -> None:
        self.reason = ""
        """The signal or time limit; empty without a request."""
        self.exit_code = 128 + signal.SIGINT
        """128 + signal number, as shells report it."""
        self._reasons = {**_REASONS, signal.SIGALRM: limit}
        self._is_breakable = False

    @property
    def is_wanted(self) -> bool:
        return bool(self.reason)

    @property
    def is_of_signal(self) -> bool:
        return self.reason in _REASONS.values()

    def note(self, number: int, frame: FrameType | None) -> None:
        """Handle a stop signal or the time limit."""
        insists = self.is_wanted and number == signal.SIGINT
        if not self.is_wanted:
            self.reason, self.exit_code = self._reasons[signal.Signals(number)], 128 + number
        breaks_off, self._is_breakable = self._is_breakable, False  # a second SIGTERM must not stop the clean-up
        if insists:
            raise KeyboardInterrupt
        if breaks_off:
            raise EndedEarlyError(self.reason)

    def check(self) -> None:
        if self.is_wanted:
            raise EndedEarlyError(self.reason)

    @contextmanager
    def breakable(self) -> Iterator[None]:
        was_breakable = self._is_breakable
        self._is_breakable = True  # before the check, or a signal after the check would be missed
        try:
            self.check()
            yield
        finally:
            self._is_breakable = was_breakable and not self.is_wanted

    def unless_wanted(self, work: Callable[[], _Result]) -> _Result | None:
        """Return the result of work, or None after a request. Then exceptions of the work are ignored."""
        try:
            with self.breakable():
                result = work()
        except BaseException:
            if self.is_wanted:
                return None
            raise
        return None if self.is_wanted else result


_entered = [Interruption()]
"""One Interruption per active `interruptible` block of the main thread; the first never has a request."""


def present() -> Interruption:
    return _entered[-1]


@contextmanager
def interruptible(seconds: float | None = None, limit: str = "") -> Iterator[Interruption]:
    """Handle the stop signals and a time limit inside a `with` block.

    limit: the `reason` after the time limit. No effect outside the main thread, which alone gets signals.
    """
    interruption = Interruption(limit)
    taken = (*STOP_SIGNALS, *([signal.SIGALRM] if seconds is not None else []))
    before = {}
    try:
        before = {number: signal.signal(number, interruption.note) for number in taken}
    except ValueError:  # in another thread
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
