"""Check: a user's function that judges one crash state, what came of it, and the processes that checks run in.

    def check(directory: Path, acknowledged: list[str]) -> Iterable[str] | None

opens a directory that is made of the state, with the program's own code, and yields, or returns, what is broken of what
had been acknowledged; whatever it raises is a breach, too. While it runs, the directory is the working directory, and
temporary files go where the program's went; both are gone afterwards.

A check that hangs, or kills its process, costs that state and no other. Processes are forked, which is cheap, and safe
as there is one thread only. Each judges one state after the other, in a fresh directory, but with the modules it has:
what a check keeps in them, it finds again.
"""

import contextlib
import importlib.util
import os
import re
import signal
import sys
import tempfile
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from types import TracebackType
from typing import NamedTuple

from ...sim.process import NoEndInSight, cpu_limit
from ..disk.export import export
from ..disk.image import Image
from .record import FILES, TEMPORARY

_QUOTED = re.compile(r"""b?(?P<quote>['"])(?:\\.|(?!(?P=quote)).)*(?P=quote)""")
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
_LIST = re.compile(r"(?P<one>#|'…')(?:, (?P=one))*(?=[\])}])")
"""One or more of a kind in brackets: how many there are makes no other breach of it."""
HELD, BROKEN, RAISED, TIMED_OUT, DIED = "held", "broken", "raised", "timed out", "died"


class CheckOutcome(NamedTuple):
    """What came of a check: it HELD, was BROKEN, RAISED, TIMED_OUT, or its process DIED."""

    outcome: str
    lines: tuple[str, ...] = ()
    """What is broken, in the check's words; what was raised, and where."""

    @property
    def is_broken(self) -> bool:
        """Return whether anything but HELD."""
        return self.outcome != HELD

    @property
    def signature(self) -> str:
        """Return what breaches of one kind have in common: their first line but for numbers and quoted texts."""
        first = self.lines[0] if self.lines else self.outcome
        plain = _NUMBER.sub("#", _QUOTED.sub("'…'", first))
        return _LIST.sub(r"\g<one>, …", plain)


CHECK = "check"
_MODULE = "tornlog_probe_check"
_VIOLATIONS_MAX = 20
Function = Callable[[Path, list[str]], Iterable[str] | None]


class CheckError(Exception):
    """A file is no check."""


def load_check(path: Path) -> Function:
    """Return the function `check` of a Python file, which finds modules beside it. Raises CheckError if it has none."""
    path = path.resolve()
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise CheckError(f"{path}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CheckError(f"{path}: {type(error).__name__}: {error}") from error
    function: Function | None = getattr(module, CHECK, None)
    if not callable(function):
        raise CheckError(f"{path}: expected a function {CHECK}(directory, acknowledged), found none")
    return function


def judge(check: Function, image: Image, acknowledged: list[str], scratch: Path) -> CheckOutcome:
    """Return what a check says of an image, of which a directory in scratch is made for as long as that takes."""
    with _surroundings(image, scratch) as root:
        directory = Path(f"{root}{FILES}")
        try:
            found = check(directory, list(acknowledged))
            lines = () if found is None else tuple(_few(found))
        except (Exception, SystemExit) as error:
            return CheckOutcome(RAISED, tuple(line.replace(str(root), "") for line in _error_lines(error)))
        return CheckOutcome(BROKEN, lines) if lines else CheckOutcome(HELD)


@contextlib.contextmanager
def _surroundings(image: Image, scratch: Path) -> Iterator[Path]:
    """Make an image a real directory, and work in that for a while; what is printed goes to standard error."""
    before, temporary = os.getcwd(), tempfile.tempdir
    with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as place:
        root = Path(place)
        export(image, "/", root)
        os.chdir(f"{root}{FILES}")
        tempfile.tempdir = f"{root}{TEMPORARY}"
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield root
        finally:
            tempfile.tempdir = temporary
            os.chdir(before)


def _few(found: Iterable[str]) -> Iterator[str]:
    """Yield the first of what a check finds. A text stands for itself, as it is easily returned instead of a list."""
    for number, line in enumerate([found] if isinstance(found, str) else found):
        if number == _VIOLATIONS_MAX:
            return
        yield str(line)


def _error_lines(error: BaseException) -> Iterator[str]:
    """Yield what was raised, then where, innermost first."""
    yield f"{type(error).__name__}: {error}".splitlines()[0]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename != __file__:
            yield f"at {frame.filename}:{frame.lineno} in {frame.name}"


Question = tuple[Image, list[str]]
"""A state, and what had been acknowledged."""
_FORK = get_context("fork")
_IN_MEMORY = "/dev/shm"
_SAID_BYTES_MAX = 64 << 10


class _CheckWorker(NamedTuple):
    process: ForkProcess
    connection: Connection


class Checkers:
    """Some processes that judge states. jobs 0: none, this one does, and seconds_max is of its CPU time."""

    def __init__(self, check: Path, jobs: int, seconds_max: float) -> None:
        self._function = load_check(check)
        self._jobs = jobs
        self._seconds_max = seconds_max
        is_there = os.path.isdir(_IN_MEMORY) and os.access(_IN_MEMORY, os.W_OK | os.X_OK)
        parent = _IN_MEMORY if is_there else None  # directories of states are far quicker in memory
        self._scratch = TemporaryDirectory(prefix="tornlog-probe-", dir=parent, ignore_cleanup_errors=True)
        self._idle: list[_CheckWorker] = []
        self._busy: dict[Connection, tuple[int, _CheckWorker, float]] = {}
        """Those with a question: its number, and until when they have time for it, on the monotonic clock."""
        self.judged = 0
        """How many states have been judged."""
        self._said = Path(self._scratch.name, "said")
        self._said.touch()

    def said(self) -> str:
        """Return the end of what checks in processes have written to standard output and standard error."""
        with self._said.open("rb") as file:
            file.seek(max(0, self._said.stat().st_size - _SAID_BYTES_MAX))
            return file.read().decode(errors="replace")

    def verdicts(self, questions: Sequence[Question]) -> list[CheckOutcome]:
        """Return what the check says of each, in order."""
        self.judged += len(questions)
        if not self._jobs:
            return [self._judge_here(*question) for question in questions]
        answers: dict[int, CheckOutcome] = {}
        waiting = deque(enumerate(questions))
        while waiting or self._busy:
            while waiting and len(self._busy) < self._jobs:
                self._ask(*waiting.popleft())
            first_end = min(end for _, _, end in self._busy.values())
            ready = wait(list(self._busy), timeout=max(0.0, first_end - monotonic()))
            for connection, (number, worker, end) in list(self._busy.items()):
                if connection in ready:
                    answers[number] = self._answer(worker)
                elif monotonic() >= end:
                    _end(worker)
                    answers[number] = CheckOutcome(TIMED_OUT, (f"no verdict within {self._seconds_max:g} s",))
                if number in answers:
                    del self._busy[connection]
        return [answers[number] for number in range(len(questions))]

    def _ask(self, number: int, question: Question) -> None:
        worker = self._idle.pop() if self._idle else self._started()
        worker.connection.send(question)
        self._busy[worker.connection] = (number, worker, monotonic() + self._seconds_max)

    def _answer(self, worker: _CheckWorker) -> CheckOutcome:
        """Return what a process has to say; one that is no more has died of the state it was given."""
        try:
            verdict: CheckOutcome = worker.connection.recv()
        except EOFError:
            worker.process.join()
            code = worker.process.exitcode
            why = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
            _end(worker)
            return CheckOutcome(DIED, (f"the check's process has ended: {why}",))
        self._idle.append(worker)
        return verdict

    def _started(self) -> _CheckWorker:
        ours, theirs = _FORK.Pipe()
        others = [ours, *self._busy]
        scratch = Path(self._scratch.name)
        arguments = (theirs, others, self._function, scratch, self._said)
        process = _FORK.Process(target=_work, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return _CheckWorker(process, ours)

    def __enter__(self) -> "Checkers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in (*self._idle, *(worker for _, worker, _ in self._busy.values())):
            _end(worker)
        self._idle.clear()
        self._busy.clear()
        self._scratch.cleanup()

    def _judge_here(self, image: Image, acknowledged: list[str]) -> CheckOutcome:
        try:
            with cpu_limit(self._seconds_max):
                return judge(self._function, image, acknowledged, Path(self._scratch.name))
        except NoEndInSight:
            return CheckOutcome(TIMED_OUT, (f"no verdict within {self._seconds_max:g} s of CPU time",))


def _work(connection: Connection, others: list[Connection], check: Function, scratch: Path, said: Path) -> None:
    """Be a process: judge what comes until nothing comes any more. What is written meanwhile goes to said."""
    descriptor = os.open(said, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    sys.stdout = sys.stderr = os.fdopen(2, "w", buffering=1, errors="replace", closefd=False)
    for other in others:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's
    while True:
        try:
            image, acknowledged = connection.recv()
        except EOFError:
            os._exit(0)
        connection.send(judge(check, image, acknowledged, scratch))


def _end(worker: _CheckWorker) -> None:
    worker.connection.close()
    worker.process.kill()
    worker.process.join()
