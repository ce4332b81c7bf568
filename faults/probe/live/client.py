"""Client and check of a live run: the client's output lines are the promises.

No recorder traces the client, and no power cut stops it. Standard output is a terminal, so that C's stdio flushes each
line. If the client writes to the descriptor with the number in TORNLOG_PROMISES, only these lines are promises.
"""

import os
import signal
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic

from ..checks.check import DIED, Check, CheckOutcome, timed_out_outcome
from ..checks.reaper import fork_below_reaper
from ..endings import exit_text
from ..record import REFUSED_PREFIX, Answers
from ..tracing.process import PROMISES

_CHUNK_BYTES = 1 << 16


class LiveClient:
    """A running client, which must be closed. log: file for its standard error. takes_refusals: as for a recorder."""

    def __init__(
        self, program: Sequence[str], directory: Path, environment: Mapping[str, str], log: Path, takes_refusals: bool
    ) -> None:
        printed, terminal = os.openpty()
        attributes = termios.tcgetattr(terminal)
        attributes[1] &= ~termios.OPOST
        termios.tcsetattr(terminal, termios.TCSANOW, attributes)
        promised, promising = os.pipe()
        self._takes_refusals = takes_refusals
        self._begun = {printed: b"", promised: b""}
        self._lines: dict[int, list[str]] = {printed: [], promised: []}
        self._printed, self._promised = printed, promised
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                program,
                cwd=directory,
                env={**environment, PROMISES: str(promising)},
                stdin=subprocess.DEVNULL,
                stdout=terminal,
                stderr=errors,
                pass_fds=(promising,),
                start_new_session=True,
            )
        os.close(terminal)
        os.close(promising)

    @property
    def outputs(self) -> list[int]:
        """Open descriptors. The caller passes a readable one to `read`."""
        return list(self._begun)

    def read(self, output: int) -> None:
        """Read the available output."""
        try:
            data = os.read(output, _CHUNK_BYTES)
        except OSError:  # EIO: the last process with the terminal has ended
            data = b""
        if not data:
            os.close(output)
            del self._begun[output]
            return
        *lines, self._begun[output] = (self._begun[output] + data).split(b"\n")
        self._lines[output] += [line.decode(errors="replace").rstrip("\r") for line in lines]

    @property
    def answers(self) -> Answers:
        """Return the promises so far, and with `takes_refusals` the refused operations."""
        lines = self._lines[self._promised] or self._lines[self._printed]
        if not self._takes_refusals:
            return Answers(list(lines))
        refused = [line.removeprefix(REFUSED_PREFIX) for line in lines if line.startswith(REFUSED_PREFIX)]
        return Answers([line for line in lines if not line.startswith(REFUSED_PREFIX)], refused)

    @property
    def printed(self) -> list[str]:
        return self._lines[self._printed]

    @property
    def exit(self) -> int | None:
        """The exit code, or None while the client runs or has unread output."""
        return None if self._begun else self._process.poll()

    def close(self) -> None:
        """Kill all processes of the client's session."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for output in self.outputs:
            os.close(output)
        self._begun.clear()


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

    def __exit__(self, *raised: object) -> None:
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
