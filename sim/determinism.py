"""The proof of determinism: run twice under the guard, compare."""

from collections.abc import Callable
from typing import TypeVar

from .errors import NondeterminismError
from .guard import guard

T = TypeVar("T")


def guarded(run: Callable[[], T]) -> T:
    """Call run under the guard. Raises LeakError if a task reached past the world, even if that did no harm."""
    with guard() as leaks:
        result = run()
    if leaks:
        raise leaks[0]
    return result


def require_same_digest(first: str, second: str) -> None:
    """Raise NondeterminismError if two runs of one seed gave different digests."""
    if first != second:
        raise NondeterminismError(first, second)


def check_determinism(run: Callable[[], str]) -> str:
    """Call run twice under the guard and return the digest both gave.

    Raises NondeterminismError if they differ, LeakError as `guarded` does.
    """
    first, second = guarded(run), guarded(run)
    require_same_digest(first, second)
    return first
