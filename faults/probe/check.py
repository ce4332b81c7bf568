"""A user's check, run on one state: a directory is made of it, and the check opens that with the program's own code.

    def check(directory: Path, acknowledged: list[str]) -> Iterable[str] | None

yields, or returns, what is broken of what had been acknowledged; whatever it raises is a breach, too. While it runs,
the directory is the working directory, and temporary files go where the program's went; both are gone afterwards.
"""

import contextlib
import importlib.util
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..disk.export import export
from ..disk.image import Image
from .record import FILES, TEMPORARY
from .verdict import BROKEN, HELD, RAISED, CheckOutcome

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
    with _materialised(image, scratch) as root, _surroundings(root):
        directory = Path(f"{root}{FILES}")
        try:
            found = check(directory, list(acknowledged))
            lines = () if found is None else tuple(_few(found))
        except (Exception, SystemExit) as error:
            return CheckOutcome(RAISED, tuple(line.replace(str(root), "") for line in _error_lines(error)))
        return CheckOutcome(BROKEN, lines) if lines else CheckOutcome(HELD)


@contextlib.contextmanager
def _materialised(image: Image, scratch: Path) -> Iterator[Path]:
    """Let an image be a real directory for a while."""
    with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as place:
        root = Path(place)
        export(image, "/", root)
        yield root


@contextlib.contextmanager
def _surroundings(root: Path) -> Iterator[None]:
    """Work in a state's directory; what is printed goes to standard error."""
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
        if number == _VIOLATIONS_MAX:
            return
        yield str(line)


def _error_lines(error: BaseException) -> Iterator[str]:
    """Yield what was raised, then where, innermost first."""
    yield f"{type(error).__name__}: {error}".splitlines()[0]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename != __file__:
            yield f"at {frame.filename}:{frame.lineno} in {frame.name}"
