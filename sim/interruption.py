"""Interruption: ends work at a signal or time limit and keeps its results.

A signal handler records the first request. The request interrupts only a `breakable` block, and the results of that
block are lost; code that adds up results is outside of such blocks. A second SIGINT raises KeyboardInterrupt anywhere.
A second SIGTERM has no effect, because timeout(1) sends two.
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
    """A block was interrupted. It is no Exception, so that `except Exception` does not catch it."""


class Interruption:
    """A request to end the work. Invariant: the first request raises only inside `breakable`."""

    def __init__(self, limit: str = "") -> None:
        self.reason = ""
        """The signal or time limit that requested the end; empty without a request."""
        self.exit_code = 128 + signal.SIGINT
        """Exit code of an interrupted command, as a shell reports the signal."""
        self._reasons = {**_REASONS, signal.SIGALRM: limit}
        self._is_breakable = False

    @property
    def is_wanted(self) -> bool:
        """Return whether an end was requested."""
        return bool(self.reason)

    @property
    def is_of_signal(self) -> bool:
        """Return whether the request was a signal, not a time limit."""
        return self.reason in _REASONS.values()

    def note(self, number: int, frame: FrameType | None) -> None:
        """Record a request. This is the signal handler."""
        insists = self.is_wanted and number == signal.SIGINT
        if not self.is_wanted:
            self.reason, self.exit_code = self._reasons[signal.Signals(number)], 128 + number
        breaks_off, self._is_breakable = self._is_breakable, False  # a second SIGTERM must not stop the clean-up
        if insists:
            raise KeyboardInterrupt
        if breaks_off:
            raise EndedEarlyError(self.reason)

    def check(self) -> None:
        """Raise EndedEarlyError if an end was requested."""
        if self.is_wanted:
            raise EndedEarlyError(self.reason)

    @contextmanager
    def breakable(self) -> Iterator[None]:
        """Allow a request to interrupt this block with EndedEarlyError."""
        was_breakable = self._is_breakable
        self._is_breakable = True  # before the check, or a signal after the check would be missed
        try:
            self.check()
            yield
        finally:
            self._is_breakable = was_breakable and not self.is_wanted

    def unless_wanted(self, work: Callable[[], _Result]) -> _Result | None:
        """Return the result of work, or None if an end was requested before or during the work.

        After a request, exceptions of the work are ignored."""
        try:
            with self.breakable():
                result = work()
        except BaseException:
            if self.is_wanted:
                return None
            raise
        return None if self.is_wanted else result


_entered = [Interruption()]
"""One Interruption per active `interruptible` block of the main thread. The first entry never has a request."""


def present() -> Interruption:
    """Return the Interruption of the innermost active `interruptible` block."""
    return _entered[-1]


@contextmanager
def interruptible(seconds: float | None = None, limit: str = "") -> Iterator[Interruption]:
    """Handle the stop signals and a time limit inside a `with` block, and yield their Interruption.

    limit: the text of `reason` after the time limit. Only the main thread gets signals; elsewhere this has no effect.
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
