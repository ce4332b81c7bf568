"""Check worker: a forked process that judges batches of states for a pool.

The pool sends several states in one message, because a switch between two processes costs as much as a short check. The
worker writes each outcome to a file at once, and sends a message after the last outcome of a batch, and after an
outcome if the last message is older than `MESSAGE_SECONDS`. If the worker hangs or dies, the file has the outcomes of
all finished checks, so the pool knows the state that was being judged.
"""

import gc
import os
import pickle
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from io import BytesIO
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import mkstemp
from time import monotonic, sleep
from types import FrameType
from typing import NoReturn

from ...disk.difference import NOTHING, ImageDifference
from ...disk.image import Image
from ..record import Answers
from .check import Check, CheckOutcome
from .reaper import descendant_processes, fork_below_reaper, kill_other_processes
from .state_directory import StateDirectory

_FORK = get_context("fork")
MESSAGE_SECONDS = 0.02
"""Maximum age of the last message before the worker reports an outcome."""
_POLL_SECONDS = 0.05
_ENDING_SECONDS = 5.0
TimedOutcome = tuple[CheckOutcome, float]
"""An outcome, and the duration of its check in seconds."""


class CheckWorker:
    """The pool's side of a worker. others: connections of other workers, which the process closes.

    owner: the pool's process if another program may kill it, else 0.
    """

    def __init__(self, check: Check, scratch: Path, log: Path, owner: int, others: Sequence[Connection]) -> None:
        self.connection, theirs = _FORK.Pipe()
        self._outcomes, name = mkstemp(dir=scratch)
        os.unlink(name)
        self._read_bytes = 0
        self._shown: Image = NOTHING
        """The last state sent. Messages have only differences between states."""
        self._answers: Answers | None = None
        """The last promises and refusals sent. The worker keeps them for the next states."""
        arguments = (theirs, [self.connection, *others], self._outcomes, check, scratch, log, owner)
        self.process = _FORK.Process(target=_run_worker, args=arguments, daemon=True)
        self.process.start()
        theirs.close()

    def send(self, states: Sequence[tuple[Image, Answers]], limit_seconds: float) -> None:
        """Send a batch. The worker must have finished the last one."""
        os.truncate(self._outcomes, 0)
        self._read_bytes = 0
        batch: list[tuple[ImageDifference, Answers | None]] = []
        for image, answers in states:
            given = None if answers is self._answers else answers
            batch.append((ImageDifference.from_images(self._shown, image), given))
            self._shown, self._answers = image, answers
        # `Connection.send` costs more, because it makes a new kind of pickler for each message.
        self.connection.send_bytes(pickle.dumps((batch, limit_seconds)))

    def has_ended(self) -> bool:
        """Receive a message, and return whether the worker has ended instead of sending one."""
        try:
            self.connection.recv_bytes()
        except (EOFError, ConnectionResetError):
            self.process.join()
            return True
        return False

    def new_outcomes(self) -> list[TimedOutcome]:
        """Return the outcomes that the worker has written since the last call, in the order of the batch."""
        size_bytes = os.fstat(self._outcomes).st_size - self._read_bytes
        written = BytesIO(os.pread(self._outcomes, size_bytes, self._read_bytes))
        found: list[TimedOutcome] = []
        while written.tell() < size_bytes:
            end = written.tell()
            try:
                found.append(pickle.load(written))
            except (EOFError, pickle.UnpicklingError):  # the worker is writing it, or was killed meanwhile
                size_bytes = end
        self._read_bytes += size_bytes
        return found

    def end(self) -> None:
        self.connection.close()
        os.close(self._outcomes)
        self.process.terminate()
        self.process.join(_ENDING_SECONDS)
        self.process.kill()
        self.process.join()


def users_of_files(process: int) -> Iterator[int]:
    yield process
    yield from descendant_processes(process)


def _run_worker(
    connection: Connection, others: list[Connection], outcomes: int, check: Check, scratch: Path, log: Path, owner: int
) -> None:
    """Run a worker: judge states until the connection closes. Checks print to log."""
    if owner:
        os.setpgid(0, 0)
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    sys.stdout = sys.stderr = os.fdopen(2, "w", buffering=1, errors="replace", closefd=False)
    for other in others:
        other.close()

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles interrupts
    for number in (signal.SIGTERM, signal.SIGALRM):  # the inherited signal handlers are the parent's
        signal.signal(number, signal.SIG_DFL)
    fork_below_reaper(connection)

    def end(number: int, frame: FrameType | None) -> NoReturn:
        check.close()
        os._exit(0)

    if not check.runs_here:  # no signal handler may interrupt a Python check; SIGKILL ends it with its process
        signal.signal(signal.SIGTERM, end)
    gc.freeze()  # garbage collections during a check then omit the objects of the pool
    _judge_batches(connection, outcomes, check, StateDirectory(scratch))
    check.close()
    if owner and _has_ended(owner):
        shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


def _judge_batches(connection: Connection, outcomes: int, check: Check, directory: StateDirectory) -> None:
    answers = Answers([])
    while True:
        try:
            batch, limit_seconds = pickle.loads(connection.recv_bytes())
        except EOFError:
            return
        written, reported_at = 0, monotonic()
        for left, (difference, given) in zip(reversed(range(len(batch))), batch, strict=True):
            began = monotonic()
            answers = answers if given is None else given
            verdict = check.judge(directory.show(difference), answers, limit_seconds).without_escape_sequences
            if not (check.runs_here or check.keeps_processes):  # ends the processes that do not serve the next state
                kill_other_processes()
            now = monotonic()
            written += os.pwrite(outcomes, pickle.dumps((verdict, now - began)), written)
            if not left or now - reported_at >= MESSAGE_SECONDS:
                try:
                    connection.send_bytes(b"outcomes")
                except BrokenPipeError:  # the pool was killed
                    return
                reported_at = now
            directory.find_check_changes(users_of_files(os.getppid()))


def _has_ended(owner: int) -> bool:
    """Wait for the end of a process, and return whether it has ended. An owner that is alive kills this process."""
    end = monotonic() + _ENDING_SECONDS
    while monotonic() < end:
        try:
            os.kill(owner, 0)
        except ProcessLookupError:
            return True
        sleep(_POLL_SECONDS)
    return False
