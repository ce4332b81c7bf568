"""Judging: runs the check in a process, while the caller serves the machines."""

import os
import signal
import sys
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from types import TracebackType

from ..checks.check import DIED, Check, CheckOutcome, timed_out_outcome
from ..checks.reaper import fork_below_reaper
from ..endings import exit_text
from ..record import Answers

_FORK = get_context("fork")
_GRACE_SECONDS = 5.0  # a check of another process enforces the time limit itself


class Judging:
    """A running check, as a context manager. root: real directory with the files to check."""

    def __init__(self, check: Check, root: Path, answers: Answers, seconds_max: float) -> None:
        self.connection, theirs = _FORK.Pipe(duplex=False)
        self._seconds_max = seconds_max
        self._end = monotonic() + seconds_max + _GRACE_SECONDS
        self._process = _FORK.Process(target=_judge, args=(theirs, check, root, answers, seconds_max))
        self._process.start()
        theirs.close()

    def verdict(self) -> CheckOutcome | None:
        """Return the verdict, or None while the check runs within its time limit."""
        if not self.connection.poll():
            return timed_out_outcome(self._seconds_max) if monotonic() > self._end else None
        try:
            verdict: CheckOutcome = self.connection.recv()
        except EOFError:
            self._process.join()
            return CheckOutcome(DIED, (f"the check's process has ended: {exit_text(self._process.exitcode or 0)}",))
        return verdict

    def __enter__(self) -> "Judging":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.join(_GRACE_SECONDS)
        self._process.kill()
        self._process.join()
        self.connection.close()


def _judge(connection: Connection, check: Check, root: Path, answers: Answers, seconds_max: float) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles interrupts
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    fork_below_reaper(connection)
    sys.stdout = sys.stderr
    verdict = check.judge(root, answers, seconds_max).without_escape_sequences
    check.close()
    connection.send(verdict)
    os._exit(0)
