"""Check: what judges one crash state, and what came of that; here the check that is a Python function.

    def check(directory: Path, acknowledged: list[str]) -> Iterable[str] | None

opens a directory that is made of the state, with the program's own code, and yields, or returns, what is broken of what
had been acknowledged; whatever it raises is a breach, too. While it runs, the directory is the working directory, and
temporary files go where the program's went; both are gone afterwards. What it keeps in its modules, it finds again.
"""

import contextlib
import importlib.util
import os
import re
import sys
import tempfile
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

from ..record import FILES, TEMPORARY

_QUOTED = re.compile(r"""(?<!\w)b?(?P<quote>['"])(?:\\.|(?!(?P=quote)).)*(?P=quote)""")
_PATH = re.compile(r"(?<![\w./])/(?!/)[\w.@+~-]+(?:/+[\w.@+~-]+)*")
"""An absolute path. Relative ones stay: `read/write` may be no path."""
_UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_HEX = "(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{4,}"  # a digit has to be in it: `dead` and `added` are words
_NUMBER = re.compile(rf"0x[0-9a-fA-F]+|(?<![0-9A-Za-z])(?:{_UUID}|{_HEX})(?![0-9A-Za-z])|[0-9]+")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""A terminal's escape sequence, as for a colour (ECMA-48)."""
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
        """Return what breaches of one kind have in common: their first line.

        Numbers, hexadecimal ids, absolute paths and quoted texts are left out of it.
        """
        first = self.lines[0] if self.lines else self.outcome
        plain = _NUMBER.sub("#", _PATH.sub("…", _QUOTED.sub("'…'", first)))
        return _LIST.sub(r"\g<one>, …", plain)

    @property
    def uncoloured(self) -> "CheckOutcome":
        """Return the same without the escape sequences of a terminal."""
        lines = [_ESCAPE.sub("", line) for line in self.lines]
        kept = tuple(line for line in lines if line.strip())
        return self._replace(lines=kept or (NO_TEXT,) if lines else ())


def no_verdict(seconds_max: float) -> CheckOutcome:
    """Return the outcome of a check that takes too long."""
    return CheckOutcome(TIMED_OUT, (f"no verdict within {seconds_max:g} s",))


class Check(ABC):
    """What judges directories that crashes have left. name: as reports, and the files of failures, have it."""

    runs_here: ClassVar[bool] = False
    """Whether it needs no process beside the one that asks."""
    is_server: ClassVar[bool] = False
    """Whether its name is a command that stays up, and no file."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def judge(self, root: Path, acknowledged: list[str], seconds_max: float) -> CheckOutcome:
        """Return what it says of the disk whose directories are below root, when that had been acknowledged.

        seconds_max is the concern of those that wait for other processes.
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to end
        """End what it has started. It can be asked again."""


CHECK = "check"
_MODULE = "tornlog_probe_check"
NO_TEXT = "the check has given a text that is empty"
"""Stands for such a one: a breach has to say something."""
VIOLATIONS_MAX = 20
"""How many lines of one check are kept."""
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


class PythonCheck(Check):
    """The function `check` of a Python file. Raises CheckError if it has none."""

    runs_here = True

    def __init__(self, path: Path) -> None:
        super().__init__(str(path.resolve()))
        self._function = load_check(path)

    def judge(self, root: Path, acknowledged: list[str], seconds_max: float) -> CheckOutcome:
        """Return what the function says of the directory; who waits for it minds the time."""
        with _surroundings(root):
            try:
                found = self._function(Path(f"{root}{FILES}"), list(acknowledged))
                lines = () if found is None else tuple(_few(found))
            except (Exception, SystemExit) as error:
                return CheckOutcome(RAISED, tuple(line.replace(str(root), "") for line in _error_lines(error)))
        return CheckOutcome(BROKEN, lines) if lines else CheckOutcome(HELD)


@contextlib.contextmanager
def _surroundings(root: Path) -> Iterator[None]:
    """Work in the program's directory for a while; what is printed goes to standard error."""
    before, temporary = os.getcwd(), tempfile.tempdir
    os.chdir(f"{root}{FILES}")
    tempfile.tempdir = f"{root}{TEMPORARY}"
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        tempfile.tempdir = temporary
        os.chdir(before)


def _few(found: Iterable[str]) -> Iterator[str]:
    """Yield the first of what a check finds. A text stands for itself, as it is easily returned instead of a list."""
    for number, line in enumerate([found] if isinstance(found, str) else found):
        if number == VIOLATIONS_MAX:
            return
        yield str(line) or NO_TEXT


def _error_lines(error: BaseException) -> Iterator[str]:
    """Yield what was raised, then where, innermost first."""
    yield f"{type(error).__name__}: {error}".splitlines()[0]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename != __file__:
            yield f"at {frame.filename}:{frame.lineno} in {frame.name}"
