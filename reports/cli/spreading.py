"""Spreading of work over local processes, each of which opens its own files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from ...store.real.world import overlay_world
from ...store.tools.spread import Item, Judgement, PartSpread, Result


def _judged_here(judgement: Judgement[Item, Result], item: Item) -> Result:
    """Return the judgement of one item; its maps are released."""
    world = overlay_world()
    return judgement(world.files, world.core, item)


@contextmanager
def spread_over(jobs: int) -> Iterator[PartSpread]:
    """Yield a function that judges items in so many processes; 1 means in this process."""
    if jobs == 1:
        yield _in_turn
        return
    from ...scenarios.campaigns.worker_pool import worker_pool  # help needs no scenarios

    with worker_pool(jobs) as pool:

        def judged(judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
            return pool.map(partial(_judged_here, judgement), items)

        yield judged


def _in_turn(judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
    return map(partial(_judged_here, judgement), items)
