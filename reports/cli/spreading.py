"""Spreading over processes of this machine: what `PartSpread` asks for, with files that each of them opens itself."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from ...store.real.world import overlay_world
from ...store.tools.spread import Item, Judgement, PartSpread, Result


def _judged_here(judgement: Judgement[Item, Result], item: Item) -> Result:
    """Return what is found of one part; what is mapped for it is given back."""
    world = overlay_world()
    return judgement(world.files, world.core, item)


@contextmanager
def spread_over(jobs: int) -> Iterator[PartSpread]:
    """Yield what has parts judged by so many processes, by this one if it is one."""
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
