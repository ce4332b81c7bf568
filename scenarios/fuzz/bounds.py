"""Bounds on what one input may cost: an end to its CPU time, and to the memory it makes the code ask for.

Of memory there are two bounds. While inputs are judged the process may not grow by more than ADDRESS_SPACE_BYTES, which
costs nothing and turns a length that was believed into a MemoryError. And of inputs that took a new way, and of
one in so many others, the most that was allocated at once is measured; that finds what is far too much for so small an
input and still far from what a machine has.
"""

import resource
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ADDRESS_SPACE_BYTES = 1 << 28
_PAGE_BYTES = resource.getpagesize()
_STATUS = "/proc/self/statm"


@contextmanager
def address_space_limited(more_bytes: int = ADDRESS_SPACE_BYTES) -> Iterator[None]:
    """Refuse the process more than so many bytes beyond what it has, while a block lasts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open(_STATUS, encoding="ascii") as status:
        used_bytes = int(status.read().split()[0]) * _PAGE_BYTES
    limit = used_bytes + more_bytes
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def peak_bytes(run: Callable[[], object]) -> int:
    """Return how much memory run had allocated at its worst moment, beyond what was there before it."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
