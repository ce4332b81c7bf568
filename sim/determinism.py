"""The proof of determinism: run twice, compare."""

from collections.abc import Callable

from .errors import NondeterminismError
from .guard import guard


def check_determinism(run: Callable[[], str]) -> str:
    """Call run twice under the guard and return the digest both gave.

    Raises NondeterminismError if they differ, LeakError if a task reached past the world, even unharmed.
    """
    digests = []
    for _ in range(2):
        with guard() as leaks:
            digests.append(run())
            if leaks:
                raise leaks[0]
    first, second = digests
    if first != second:
        raise NondeterminismError(first, second)
    return first
