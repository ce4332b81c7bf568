"""Checks: judge crash states. This module also has the check that is a Python function.

 def check(directory: Path, acknowledged: list[str]) -> Iterable[str] | None
 def check(directory: Path, acknowledged: list[str], refused: list[str]) -> Iterable[str] | None

The function opens a directory with the crash state, using the program's own code. It yields or returns the broken
promises. An exception is also a breach. `refused` lists the operations that returned an error to their users. A message
or an exception that starts with `noticed:` means that the program has reported damage. It is no breach if the data is
damaged.

While the function runs, `directory` is the working directory, and `tempfile` uses the program's directory for temporary
files. Both directories are removed afterwards. Module variables of the check persist between calls.
"""

import contextlib
import importlib.util
import inspect
import json
import os
import re
import sys
import tempfile
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

from ..record import FILES, TEMPORARY, Answers

_QUOTED = re.compile(r"""(?<!\w)b?(?P<quote>['"])(?:\\.|(?!(?P=quote)).)*(?P=quote)""")
_PATH = re.compile(r"(?<![\w./])/(?!/)[\w.@+~-]+(?:/+[\w.@+~-]+)*")
"""An absolute path. The pattern excludes relative paths, because text such as `read/write` may not be a path."""
_UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_HEX = "(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{4,}"  # an id must have a digit, because `dead` and `added` are words
_NUMBER = re.compile(rf"0x[0-9a-fA-F]+|(?<![0-9A-Za-z])(?:{_UUID}|{_HEX})(?![0-9A-Za-z])|[0-9]+")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""A terminal escape sequence, such as a colour (ECMA-48)."""
_LIST = re.compile(r"(?P<one>#|'…')(?:, (?P=one))*(?=[\])}])")
"""One or more equal items in brackets. The signature omits their number."""
HELD, BROKEN, RAISED, TIMED_OUT, DIED = "held", "broken", "raised", "timed out", "died"
NOTICED = "noticed:"
"""Prefix of a message about damage that the program has reported. Without damage the message is a breach."""


class CheckOutcome(NamedTuple):
    """The outcome of a check: HELD, BROKEN, RAISED, TIMED_OUT, or DIED if the check's process ended."""

    outcome: str
    lines: tuple[str, ...] = ()
    """The messages of the check, or the exception and its traceback."""
    is_assumed: bool = False
    """Whether the check exceeded a reduced time limit, but not the whole one (`checkers`)."""

    @property
    def is_broken(self) -> bool:
        return self.outcome != HELD

    @property
    def is_damage_reported(self) -> bool:
        """Whether the program has reported damage, and the check found no other problem."""
        return self.outcome == BROKEN and all(line.startswith(NOTICED) for line in self.lines)

    def is_breach(self, *, is_damaged: bool) -> bool:
        """Return whether the outcome is a breach. The program may report damaged data, but must not use it."""
        return self.is_broken and not (is_damaged and self.is_damage_reported)

    @property
    def signature(self) -> str:
        """Return the first line of the messages without the parts that differ between breaches of one kind.

        These are numbers, hexadecimal ids, absolute paths, quoted texts, and blanks around the line.
        """
        first = next((line for line in self.lines if not line.startswith(NOTICED)), "".join(self.lines[:1]))
        plain = _NUMBER.sub("#", _PATH.sub("…", _QUOTED.sub("'…'", first or self.outcome)))
        return _LIST.sub(r"\g<one>, …", plain).strip()

    @property
    def without_escape_sequences(self) -> "CheckOutcome":
        """Return the outcome without escape sequences of a terminal."""
        assert self.lines or not self.is_broken, "a breach needs a message"
        if not self.lines:
            return self
        lines = [_ESCAPE.sub("", line) for line in self.lines]
        kept = tuple(line for line in lines if line.strip())
        return self._replace(lines=kept or (NO_TEXT,))


def timed_out_outcome(seconds_max: float) -> CheckOutcome:
    """Return the outcome of a check that exceeds the time limit."""
    return CheckOutcome(TIMED_OUT, (f"no verdict within {seconds_max:g} s",))


class Check(ABC):
    """Judges directories with crash states. name: the name of the check in reports and failure files."""

    runs_here: ClassVar[bool] = False
    """Whether the check runs in the caller's process."""
    keeps_processes: ClassVar[bool] = False
    """Whether the check's processes keep running for the next state."""
    kind: ClassVar[str] = "check"
    """Key of the check's row in `CHECK_KINDS`. A failure file stores it, so that a replay can find the check."""
    takes_refusals: bool = True
    """Whether the check gets the refused operations, after the promises."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def judge(self, root: Path, answers: Answers, seconds_max: float) -> CheckOutcome:
        """Return the verdict on a crash state. root: real directory with the files of the program's disk.

        seconds_max: time limit for checks that wait for another process.
        """

    def program(self, file: Path, answers: Answers, seconds_max: float) -> list[str]:
        """Return a command line for a recorder, which judges its working directory once. file: path of a new file for
        the promises and refusals.
        """
        file.write_text(json.dumps(answers))
        started = [sys.executable, "-P", "-m", __package__]
        return [*started, str(Path.cwd()), str(file), str(seconds_max), self.kind, self.name]

    def end_processes(self) -> None:
        """End the check's processes, and kill those that do not end by themselves."""
        self.close()

    def close(self) -> None:  # noqa: B027 - most have no processes
        """Kill the processes that the check has started. The check can be used again afterwards."""


CHECK, REFUSED = "check", "refused"
_MODULE = "tornlog_probe_check"
NO_TEXT = "the check gave an empty message"
"""Text for an empty message of a check, because a breach needs a text."""
VIOLATIONS_MAX = 20
Function = Callable[..., Iterable[str] | None]


class CheckError(Exception):
    """A file does not contain a check."""


def load_check(path: Path) -> Function:
    """Return the function `check` of a Python file, which can import from its directory. CheckError: the file has no
    such function.
    """
    path = path.resolve()
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    if spec is None or not path.is_file():
        raise CheckError(f"{path}: expected a Python file, found {'another file' if path.exists() else 'nothing'}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        # The loader's bytecode cache is stale after a change within a second that keeps the file's size.
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    except Exception as error:
        raise CheckError(f"{path}: {type(error).__name__}: {error}") from error
    function: Function | None = getattr(module, CHECK, None)
    if not callable(function):
        raise CheckError(f"{path}: expected a function {CHECK}(directory, acknowledged), found none")
    return function


def call_check(function: Function, directory: Path, answers: Answers, *, with_refusals: bool) -> Iterable[str] | None:
    """Call a check with the promises and, if it takes them, with the refused operations."""
    more = {REFUSED: list(answers.refused)} if with_refusals else {}
    return function(directory, list(answers.acknowledged), **more)


def takes_refusals(function: Function) -> bool:
    try:
        return REFUSED in inspect.signature(function).parameters
    except ValueError:  # some functions in C have no signature
        return False


class FunctionCheck(Check):
    """A function of the running process, such as a closure of a test. A recorder or a replay cannot load it from a
    file.

    raised: classes of exceptions that are a breach, in addition to `Exception`.
    """

    runs_here = True

    def __init__(self, name: str, function: Function, raised: tuple[type[BaseException], ...] = ()) -> None:
        super().__init__(name)
        self._function = function
        self._raised: tuple[type[BaseException], ...] = (Exception, SystemExit, *raised)
        self.takes_refusals = takes_refusals(function)

    def judge(self, root: Path, answers: Answers, seconds_max: float) -> CheckOutcome:
        """Return the verdict of the function. The caller enforces the time limit."""
        with _environment_of_check(root):
            try:
                found = call_check(self._function, Path(f"{root}{FILES}"), answers, with_refusals=self.takes_refusals)
                lines = () if found is None else tuple(_limited_findings(found))
            except self._raised as error:
                if str(error).startswith(NOTICED):
                    return CheckOutcome(BROKEN, tuple(str(error).splitlines()[:1]))
                return CheckOutcome(RAISED, tuple(line.replace(str(root), "") for line in _error_lines(error)))
        return CheckOutcome(BROKEN, lines) if lines else CheckOutcome(HELD)


class PythonCheck(FunctionCheck):
    """The function `check` of a Python file. CheckError: the file has no such function."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path.resolve()), load_check(path))

    def program(self, file: Path, answers: Answers, seconds_max: float) -> list[str]:
        """Return a command line that runs a Python module, so that the recorder of Python calls can record it."""
        file.write_text(json.dumps(answers))
        return ["-m", __package__, self.name, str(file)]


@contextlib.contextmanager
def _environment_of_check(root: Path) -> Iterator[None]:
    """Set the working directory and the directory of temporary files, and redirect output to standard error."""
    before, temporary = os.getcwd(), tempfile.tempdir
    os.chdir(f"{root}{FILES}")
    tempfile.tempdir = f"{root}{TEMPORARY}"
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        tempfile.tempdir = temporary
        os.chdir(before)


def _limited_findings(found: Iterable[str]) -> Iterator[str]:
    """Yield the first findings of a check. A string is a single finding."""
    for number, line in enumerate([found] if isinstance(found, str) else found):
        if number == VIOLATIONS_MAX:
            return
        yield str(line) or NO_TEXT


def _error_lines(error: BaseException) -> Iterator[str]:
    """Yield the text of the exception, then its traceback, innermost frame first."""
    yield f"{type(error).__name__}: {error}".splitlines()[0]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename != __file__:
            yield f"at {frame.filename}:{frame.lineno} in {frame.name}"
