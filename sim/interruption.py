"""Interruption: Ctrl-C, SIGTERM or a time limit ends work soon, and keeps its results so far.

The first of these requests is noted at once. It breaks off only a block that is `breakable`: the results of that block
are lost, and code that sums up results is never interrupted. A second SIGINT is a KeyboardInterrupt at any place. A
second SIGTERM does nothing, because timeout(1) sends two.
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
    """A block was broken off. It is no Exception, so that no code on the way takes it for an error of its own."""


class Interruption:
    """Whether the user has asked for an end. Invariant: a handler raises the first request only inside `breakable`."""

    def __init__(self, limit: str = "") -> None:
        self.reason = ""
        """The words for the signal or the time limit; empty: the work goes on."""
        self.exit_code = 128 + signal.SIGINT
        """Of a command that was interrupted, as a shell reports the signal."""
        self._reasons = {**_REASONS, signal.SIGALRM: limit}
        self._is_breakable = False

    @property
    def is_wanted(self) -> bool:
        """Return whether an end is wanted."""
        return bool(self.reason)

    @property
    def is_of_signal(self) -> bool:
        """Return whether a signal of the user has asked, and not a time limit."""
        return self.reason in _REASONS.values()

    def note(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        insists = self.is_wanted and number == signal.SIGINT
        if not self.is_wanted:
            self.reason, self.exit_code = self._reasons[signal.Signals(number)], 128 + number
        breaks_off, self._is_breakable = self._is_breakable, False  # a second SIGTERM must not stop the clean-up
        if insists:
            raise KeyboardInterrupt
        if breaks_off:
            raise EndedEarlyError(self.reason)

    def check(self) -> None:
        """Raise EndedEarlyError if an end is wanted."""
        if self.is_wanted:
            raise EndedEarlyError(self.reason)

    @contextmanager
    def breakable(self) -> Iterator[None]:
        """Let a request break off a block, which raises EndedEarlyError then."""
        was_breakable = self._is_breakable
        self._is_breakable = True  # before the check: a request that comes between the two must not be missed
        try:
            self.check()
            yield
        finally:
            self._is_breakable = was_breakable and not self.is_wanted

    def unless_wanted(self, work: Callable[[], _Result]) -> _Result | None:
        """Return the result of some work; None if the user wants an end before the work or during it.

        An exception of the work after it was interrupted is its way to end, and passed over.
        """
        try:
            with self.breakable():
                result = work()
        except BaseException:
            if self.is_wanted:
                return None
            raise
        return None if self.is_wanted else result


_entered = [Interruption()]
"""Those of the present `with` blocks of the main thread; the first is never wanted."""


def present() -> Interruption:
    """Return the interruption of this process: signals belong to processes."""
    return _entered[-1]


@contextmanager
def interruptible(seconds: float | None = None, limit: str = "") -> Iterator[Interruption]:
    """Take the stop signals, and a time limit, inside a `with` block, and yield their Interruption.

    limit: the words for the time limit. Only the main thread gets signals.
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
