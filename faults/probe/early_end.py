"""Early end: stops a probe that a signal or a time limit ends, and keeps its findings.

A signal handler calls `EARLY_END.ask`. That breaks off the present wait for another process, or the check that runs in
this one. Everything else runs on to its next wait, so the sums of a probe stay consistent.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class EndedEarlyError(KeyboardInterrupt):
    """The probe has to end. It is no Exception, so that a check cannot take it for an error of its own."""


class EarlyEnd:
    """The request to end. Invariant: a handler raises only inside of `breakable`."""

    def __init__(self) -> None:
        self.reason = ""
        """The words for the signal or the limit; empty: the probe goes on."""
        self._is_breakable = False

    def ask(self, reason: str) -> None:
        """Take a request, from a signal handler. The first reason counts."""
        self.reason = self.reason or reason
        if self._is_breakable:
            self._is_breakable = False
            raise EndedEarlyError(self.reason)

    def check(self) -> None:
        """Raise EndedEarlyError if the probe has to end."""
        if self.reason:
            raise EndedEarlyError(self.reason)

    @contextmanager
    def breakable(self) -> Iterator[None]:
        """Let a request break off a block, which raises EndedEarlyError then. Not to be nested."""
        assert not self._is_breakable, "nested"
        self._is_breakable = True  # before the check: a request that comes between the two must not be missed
        try:
            self.check()
            yield
        finally:
            self._is_breakable = False


EARLY_END = EarlyEnd()
"""That of this process, because signals belong to processes."""
