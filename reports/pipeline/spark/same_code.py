"""Work is done only where the code is the driver's: the same seeds give the same rows no other way.

A version alone does not tell a wheel from the sources it was built from an hour ago; a hash of them does.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Generic, TypeVar

from .... import __version__

Item = TypeVar("Item")
Result = TypeVar("Result")

_CAUSES = re.compile(
    r"ModuleNotFoundError: (No module named '[^']*')"
    r"|\[PYTHON_VERSION_MISMATCH\] ([^\n]*)"
    r"|(Cannot run program [^\n]*)"
)
"""What Spark's long reports say of executors that could not even begin."""


class ExecutorError(RuntimeError):
    """Executors lack what the work needs, or have it in another version."""


@dataclass(frozen=True, slots=True)
class SameCodeFunction(Generic[Item, Result]):
    """A function that is not called where the code is not that of the one who made this."""

    function: Callable[[Item], Result]
    code: str

    def __call__(self, item: Item) -> tuple[str, Result | None]:
        """Return the code that is here, and what the function makes of an item if it is the right one."""
        here = code_here()
        return here, self.function(item) if here == self.code else None


@cache
def code_here() -> str:
    """Return the version of the code in this process, and a hash of its sources."""
    found = blake2b(digest_size=8)
    for source in _sources(files(__package__.partition(".")[0])):
        found.update(source)
    return f"tornlog {__version__} ({found.hexdigest()})"


def require_same_code(here: str, found: str) -> None:
    """Raise ExecutorError if an executor has other code than the driver, which has `here`."""
    if found != here:
        raise ExecutorError(f"executors have {found}, the driver has {here}: ship or install the driver's")


def raise_if_lacking(error: Exception) -> None:
    """Raise the ExecutorError that is behind what Spark raises for a job, if there is one."""
    cause = _CAUSES.search(str(error))
    if cause is not None:
        (said,) = filter(None, cause.groups())
        raise ExecutorError(
            f"executors could not begin: {said}. What they need is shipped to them, or installed where they run"
        ) from error


def _sources(package: Traversable) -> Iterator[bytes]:
    """Yield names and contents of a package's modules, in order. What has no __init__.py is none of its packages."""
    parts = sorted(package.iterdir(), key=lambda part: part.name)
    for part in parts:
        if part.name == "setup.py":
            continue  # a checkout has it, a wheel has not
        if part.name.endswith(".py"):
            yield part.name.encode()
            yield part.read_bytes()
        elif part.is_dir() and part.joinpath("__init__.py").is_file():
            yield part.name.encode()
            yield from _sources(part)
