"""When garbage is collected: between runs, never within one."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_kept() -> Iterator[None]:
    """Collect garbage once, at the end of a block that holds one run.

    A run makes many cycles, and few that are worth a look while it goes on; of several runs at a time, what the first
    left would have gone from the processor's cache. What a block makes is in the youngest generation: that one alone is
    collected. Blocks may be nested: within the outer one, garbage is collected where an inner one ends.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.collect(0)
